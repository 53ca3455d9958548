"""The finder of outside addresses finds each way in which a page loads one."""

import pytest

from tests.outside import loads

CDN = "https://cdn.example.org/x.js"


@pytest.mark.parametrize(
    "html",
    [
        f'<script src="{CDN}"></script>',
        '<script src="//cdn.example.org/x.js"></script>',
        f'<script>document.head.append("{CDN}")</script>',
        f'<link rel="stylesheet" href="{CDN}">',
        f'<img srcset="{CDN} 2x">',
        f"<style>a {{ background: url({CDN}) }}</style>",
        f'<style>@import "{CDN}";</style>',
        f'<p style="background: url({CDN})">',
    ],
)
def test_what_a_browser_loads_is_found(html):
    assert loads(html)


@pytest.mark.parametrize(
    "html",
    [
        f'<a href="{CDN}">read</a> {CDN}',
        f"<style>/* {CDN} */ a {{ background: url(fonts/a.woff) }}</style>",
        '<svg xmlns="http://www.w3.org/2000/svg"><use href="#a"></use></svg>',
        '<img src="data:image/png;base64,AA//BB.cc">',
        "<script>\n// see the page\nlet a = 1;\n</script>",
    ],
)
def test_what_it_does_not_load_is_free(html):
    assert loads(html) == []
