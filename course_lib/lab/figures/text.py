"""The figures as text: numbers, plain lines and the static markup shown where nothing can move."""

import math
from decimal import ROUND_HALF_UP, Decimal
from html import escape
from typing import Any

SUPERSCRIPT = str.maketrans(
    "0123456789", "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"
)
NOTE = "Live figure: it moves in JupyterLab and on the page with JavaScript. These are its numbers."


def fmt(x: Any) -> str:
    """A number as the figures write it, text for text what `fmt` in engine.mjs returns.

    About four digits, whole numbers in full, a true minus sign, otherwise powers of ten
    outside 0.001 .. 100000. Other values: `str`.
    """
    if isinstance(x, bool) or not isinstance(x, int | float):
        return str(x)
    if math.isnan(x):
        return "NaN"
    sign, a = ("\u2212" if x < 0 else ""), abs(x)
    if math.isinf(a):
        return sign + "inf"
    if a == int(a) and a < 1e12:
        return f"{sign}{int(a):,}"
    if a < 1e-3 or a >= 1e5:
        return sign + _power(a)
    places = sum(a < edge for edge in (1000, 100, 10, 0.1, 0.01))
    return f"{sign}{_round(Decimal(a), places):,f}"


def _round(value: Decimal, places: int) -> Decimal:
    return value.quantize(
        Decimal(1).scaleb(-places), rounding=ROUND_HALF_UP
    )  # as toFixed rounds ties


def _power(a: float) -> str:
    exact = Decimal(a)
    exponent = exact.adjusted()
    mantissa = _round(exact.scaleb(-exponent), 2)
    if mantissa >= 10:
        mantissa, exponent = mantissa / 10, exponent + 1
    head = f"{mantissa:.2f}".rstrip("0").rstrip(".")
    power = ("\u207b" if exponent < 0 else "") + str(abs(exponent)).translate(SUPERSCRIPT)
    return ("" if head == "1" else f"{head} \u00d7 ") + "10" + power


def plain(title: str, summary: str, table: dict[str, Any]) -> str:
    """Title, sentence and numbers in aligned columns."""
    cells = [table["columns"], *([fmt(c) for c in row] for row in table["rows"])]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    lines = ["  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)) for row in cells]
    return "\n".join([title, summary, *lines])


def markup(name: str, preset: str, title: str, summary: str, table: dict[str, Any]) -> str:
    """The static element that host.mjs turns into the live figure; complete without JavaScript."""
    head = "".join(f'<th scope="col">{escape(c)}</th>' for c in table["columns"])
    rows = "".join(f"<tr>{_cells(row)}</tr>" for row in table["rows"])
    return (
        f'<div class="course-figure" id="figure-{name}" data-figure="{name}" '
        f'data-preset="{preset}">'
        f"<div data-fallback><p><strong>{escape(title)}</strong></p><p>{escape(summary)}</p>"
        f'<div style="overflow-x:auto" role="region" tabindex="0" aria-label="{escape(title)}">'
        f"<table><caption>{escape(table['caption'])}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
        f"<p><small>{NOTE}</small></p></div></div>"
    )


def _cells(row: list[Any]) -> str:
    first, *rest = (escape(fmt(c)) for c in row)
    return f'<th scope="row">{first}</th>' + "".join(f"<td>{c}</td>" for c in rest)
