"""MyST prose as the Markdown that any notebook front end shows.

JupyterLab without extensions prints a directive as raw text, so admonitions become block quotes,
dropdowns become `details`, references become plain words, and a link to another lesson's page leads
to its notebook.
"""

import base64
import html
import re

_DIRECTIVE = re.compile(r"^(:{3,}|`{3,})\{(\w[\w-]*)\}[ \t]*(.*)\n((?:.*\n)*?)\1[ \t]*$", re.M)
_OPTION = re.compile(r"^:([\w-]+):[ \t]*(.*)\n", re.M)
_ROLE = re.compile(r"\{(?:ref|doc|numref|eq|term)\}`([^`<]*?)(?:\s*<([^`>]*)>)?`")
_LESSON = re.compile(r"\]\((\d\d_\w+)\.md([#)])")
_REFERENCE = re.compile(r"\]\((reference/[\w-]+\.md)([#)])")
_STYLE = (
    "<style>svg{color:#808080}text{font:14px sans-serif;fill:#1a1a1a}"
    "rect,circle{fill:#e8f1f6;stroke:#1b6e9c;stroke-width:1.5}.course-block{fill:none;stroke:#808080;"
    "stroke-dasharray:5 4}.course-norm,.head-1{stroke-width:3}.head-2{stroke-dasharray:3 2}"
    "svg{background:#fafafa}</style>"
)
_CODE = re.compile(r"`([^`]+)`")


def plain_markdown(source: str) -> str:
    """`source` as a cell of a notebook beside the other lessons' notebooks; may be empty.

    Directives, roles, targets, comments and links to pages are rewritten.
    """
    source = re.sub(r"^%.*\n?", "", source, flags=re.M)
    source = re.sub(r"^\([\w-]+\)=\n", "", source, flags=re.M)
    previous = None
    while previous != source:  # directives nest
        previous, source = source, _DIRECTIVE.sub(_rewrite, source + "\n").rstrip("\n")
    source = _LESSON.sub(r"](\1.ipynb\2", source)
    source = _REFERENCE.sub(r"](../book/\1\2", source)
    return _ROLE.sub(lambda m: f"*{(m[1] or m[2]).strip()}*", source).strip()


def _rewrite(match: re.Match) -> str:
    _, kind, title, body = match.groups()
    options = dict(_OPTION.findall(body[: _options_end(body)]))
    body = body[_options_end(body) :].strip()
    if kind == "dropdown":
        # in HTML, Markdown's marks are letters
        shown = _CODE.sub(lambda m: f"<code>{html.escape(m[1])}</code>", title)
        return f"<details><summary>{shown}</summary>\n\n{body}\n\n</details>"
    if kind == "raw" and body.startswith("<svg"):
        return _draw_alone(body)
    if kind == "math":
        return f"$$\n{body}\n$$"
    if kind in ("image", "figure"):
        return f"![{options.get('alt', '')}]({title})" + (f"\n\n*{body}*" if body else "")
    if kind in ("table", "list-table", "grid", "exercise-start", "exercise-end"):
        return "\n".join(filter(None, (f"**{title}**\n" if title else "", body)))
    heading = title if title else kind.capitalize()
    quoted = "\n".join(f"> {line}".rstrip() for line in body.splitlines())
    return f"> **{heading}**\n>\n{quoted}"


def _draw_alone(svg: str) -> str:
    """An inline drawing as an image, since JupyterLab takes `svg` out of Markdown. It brings the
    colors that the page's style gives it, and its title and description are its text.
    """
    said = re.findall(r"<(?:title|desc)[^>]*>([^<]+)<", svg)
    width = re.search(r'viewBox="0 0 (\d+)', svg)[1]
    alone = svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    alone = re.sub(r"</?a\b[^>]*>", "", alone).replace("</desc>", f"</desc>{_STYLE}", 1)
    data = base64.b64encode(alone.encode()).decode()
    alt = html.escape(". ".join(said))
    return f'<img width="{width}" alt="{alt}" src="data:image/svg+xml;base64,{data}">'


def _options_end(body: str) -> int:
    end = 0
    while match := _OPTION.match(body, end):
        end = match.end()
    return end
