"""What the linter says: one finding, and its form in the terminal."""

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Finding:
    """A fault in an entry: where, which, what was expected, what is there, what to do next."""

    line: int
    code: str
    what: str
    expected: str
    got: str
    next: str

    def text(self, file: str) -> str:
        """Four lines; the first can be clicked in most terminals."""
        return (
            f"{file}:{self.line} [{self.code}] {self.what}\n"
            f"  expected  {self.expected}\n  got       {self.got}\n  next      {self.next}"
        )


def shorten_text(text: str, length: int = 70) -> str:
    """A piece of the learner's text as it fits into a row."""
    text = " ".join(text.split())
    return text if len(text) <= length else text[: length - 3] + "..."
