"""The figures as text: plain lines, and the static markup shown where nothing can move."""

from html import escape

NOTE = "Live figure: it moves in JupyterLab and on the page with JavaScript. These are its numbers."


def render_plain(
    title: str, summary: str, caption: str, columns: list[str], rows: list[list[str]]
) -> str:
    """Title, sentence and numbers in aligned columns."""
    cells = [columns, *rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    lines = ["  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)) for row in cells]
    return "\n".join([title, summary, *lines])


def render_markup(
    name: str,
    preset: str,
    *,
    title: str,
    summary: str,
    caption: str,
    columns: list[str],
    rows: list[list[str]],
) -> str:
    """The static element that host.mjs turns into the live figure; complete without JavaScript."""
    head = "".join(f'<th scope="col">{escape(c)}</th>' for c in columns)
    body = "".join(f"<tr>{_render_row(row)}</tr>" for row in rows)
    return (
        f'<div class="course-figure" id="figure-{name}" data-figure="{name}" '
        f'data-preset="{preset}">'
        f"<div data-fallback><p><strong>{escape(title)}</strong></p><p>{escape(summary)}</p>"
        f'<div style="overflow-x:auto" role="region" tabindex="0" aria-label="{escape(title)}">'
        f"<table><caption>{escape(caption)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        f"<p><small>{NOTE}</small></p></div></div>"
    )


def _render_row(row: list[str]) -> str:
    first, *rest = (escape(cell) for cell in row)
    return f'<th scope="row">{first}</th>' + "".join(f"<td>{cell}</td>" for cell in rest)
