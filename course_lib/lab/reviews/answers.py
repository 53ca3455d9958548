"""Typed answers: read as the learner meant them, compared with what is right.

An `Accept` is written in a lesson as one line, `number 12 GB`, `list 5, 37`, `shape (B, T, 1)`,
`choice RMSNorm of RMSNorm | LayerNorm | both`, `yes-no yes`. What is right and what was typed go
through the same reader, so each notation that is accepted in one is accepted in the other.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from course_lib.lab.reviews.arithmetic import evaluate

KINDS = ("number", "list", "shape", "choice", "yes-no")
ROUNDED = 0.02
"""Relative tolerance of an answer that is not whole: three digits in the head, not four."""
LETTERS = "abcdefgh"
SCALES = {"k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9, "t": 1e12}
SCALES |= {"thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
BYTES = {"b": 1, "byte": 1, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12,
         "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12,
         "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}  # fmt: skip
_UNIT = re.compile(r"^(.*[\d.)])\s*([A-Za-z%]+)$")


class Unreadable(ValueError):
    """What was typed is no answer of this kind; the message says what is. It costs nothing."""


@dataclass(frozen=True)
class Accept:
    """What a right answer is. `kind` is one of `KINDS`."""

    kind: str
    right: str
    """As it would be typed: "12 GB", "5, 37", "(B, T, 1)", "RMSNorm", "yes"."""
    options: tuple[str, ...] = ()
    within: float | None = None
    """Relative tolerance; None leaves whole numbers exact and others within `ROUNDED`."""

    @property
    def format(self) -> str:
        """What to type, in a few words."""
        unit = _split_unit(self.right)[1] if self.kind == "number" else ""
        return {
            "number": f"a number, in {unit}" if unit else "a number",
            "list": "numbers with commas between them",
            "shape": "a shape, such as (B, T, 8)",
            "choice": "a letter",
            "yes-no": "yes or no",
        }[self.kind]

    def holds(self, typed: str) -> bool:
        """Whether `typed` is right. Raises `Unreadable` when it is no answer of this kind."""
        typed = typed.strip().replace("\N{MINUS SIGN}", "-")
        if not typed:
            raise Unreadable(f"expected {self.format}, got nothing")
        match self.kind:
            case "number":
                return self._holds_number(typed)
            case "list":
                return self._holds_list(typed)
            case "shape":
                return _read_shape(typed) == _read_shape(self.right)
            case "choice":
                return self._read_choice(typed) == self.right
        return _read_yes(typed) == _read_yes(self.right)

    def _holds_number(self, typed: str) -> bool:
        right, unit = _split_unit(self.right)
        values = _in_unit(typed, unit)
        return any(_is_close(value, right, self.within) for value in values)

    def _holds_list(self, typed: str) -> bool:
        right, given = _read_list(self.right), _read_list(typed)
        if len(right) != len(given):
            return False
        pairs = zip(given, right, strict=True)
        return all(_is_close(evaluate(a), b, self.within) for a, b in pairs)

    def _read_choice(self, typed: str) -> str:
        typed = typed.lower().strip("(). ")
        if len(typed) == 1 and typed in LETTERS[: len(self.options)]:
            return self.options[LETTERS.index(typed)]
        exact = [option for option in self.options if option.lower() == typed]
        found = exact or [option for option in self.options if option.lower().startswith(typed)]
        if len(found) != 1:
            last = LETTERS[len(self.options) - 1]
            raise Unreadable(f"expected a letter from a to {last}, got {typed!r}")
        return found[0]


def accept(text: str, within: str = "") -> Accept:
    """The `Accept` of a rendered answer line; ValueError says what is wrong with the line."""
    kind, _, right = text.strip().partition(" ")
    if kind not in KINDS or not right.strip():
        raise ValueError(f"an answer is one of {', '.join(KINDS)} and what is right, got {text!r}")
    options: tuple[str, ...] = ()
    if kind == "choice":
        right, of, rest = right.partition(" of ")
        options = tuple(option.strip() for option in rest.split(" | "))
        if not of or len(options) < 2 or right.strip() not in options:
            raise ValueError(f"a choice is `choice RIGHT of A | B | C`, got {text!r}")
        if len(set(options)) < len(options) or len(options) > len(LETTERS):
            raise ValueError(f"a choice has 2 to {len(LETTERS)} different options, got {text!r}")
    made = Accept(kind, right.strip(), options, _within(within))
    if not made.holds(made.right):
        raise ValueError(f"{made.right!r} is not accepted as {kind} although it is the answer")
    return made


def _within(text: str) -> float | None:
    if not text:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*%", text.strip())
    if not match:
        raise ValueError(f"a tolerance is a percentage such as 5%, got {text!r}")
    return float(match[1]) / 100


def _is_close(value: float, right: str, within: float | None) -> bool:
    wanted = evaluate(_strip_commas(right))
    if within is None:
        within = ROUNDED if "." in right or "/" in right else 0
    return abs(value - wanted) <= within * abs(wanted) + 1e-9 * abs(wanted)


def _strip_commas(text: str) -> str:
    """Without thousands commas; `^` is a power, `x` between numbers a product."""
    text = re.sub(r"(?<=\d)[,_](?=\d{3}(?!\d))", "", text).replace("^", "**")
    return re.sub(r"(?<=[\d)])\s*[x\N{MULTIPLICATION SIGN}\N{MIDDLE DOT}]\s*(?=[\d(])", "*", text)


def _split_unit(text: str) -> tuple[str, str]:
    """A number's text and its unit, which may be empty."""
    match = _UNIT.match(text.strip())
    return (match[1], match[2]) if match else (text.strip(), "")


def _in_unit(typed: str, unit: str) -> list[float]:
    """What the typed number may mean, counted in `unit`."""
    text, own = _split_unit(typed)
    try:
        value = float(evaluate(_strip_commas(text)))
    except (ValueError, OverflowError):
        raise Unreadable(
            f"expected a number{f', in {unit}' if unit else ''}, got {typed!r}; write a point for "
            "decimals, and sums such as 3 * 768 are fine"
        ) from None
    own, asked = own.lower(), unit.lower()
    own = own[:-1] if own.endswith("bytes") else own
    asked = "byte" if asked == "bytes" else asked
    if asked == "%":
        return [value] if own else [value, 100 * value]  # 40, 40 % and 0.4 all say it
    if asked in BYTES:
        if own and own not in BYTES:
            raise Unreadable(f"expected {unit}, got {typed!r}; other units of bytes are fine too")
        return [value * (BYTES[own] if own else BYTES[asked]) / BYTES[asked]]
    return [value * SCALES.get(own, 1)]


def _read_list(typed: str) -> list[str]:
    """The numbers in it, whatever stands between: "5, 37", "x[5] and x[37]", "[5:37]"."""
    found = re.findall(r"(?<![\w.)])-?\d+(?:\.\d+)?(?:/\d+)?", typed)
    if not found:
        raise Unreadable(f"expected numbers with commas between them, got {typed!r}")
    return found


def _read_shape(typed: str) -> Sequence[str]:
    inner = typed.strip().removeprefix("torch.Size").strip("()[] ").replace(" ", "").lower()
    parts = tuple(part for part in inner.split(",") if part)
    if not parts or any(not re.fullmatch(r"[\w+\-*/]+", part) for part in parts):
        raise Unreadable(f"expected a shape such as (B, T, 8), got {typed!r}")
    return parts


def _read_yes(typed: str) -> bool:
    if typed.lower() in ("y", "yes", "true"):
        return True
    if typed.lower() in ("n", "no", "false"):
        return False
    raise Unreadable(f"expected yes or no, got {typed!r}")
