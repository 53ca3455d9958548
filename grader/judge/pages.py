"""Pages for people: whole by themselves, without a script, and safe whatever a submission says."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from grader.judge.prose import CONTROL

HERE = Path(__file__).parent


def render_template(name: str, **given) -> str:
    """The page that a template of this folder makes of `given`; all text in it is escaped."""
    pages = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters["points"] = lambda number: f"{number:g}"
    text = pages.get_template(name).render(**given)
    text = text.encode("utf-8", "replace").decode()  # a file's name need not be UTF-8
    return CONTROL.sub("", text)  # a name may hold marks that turn the line around
