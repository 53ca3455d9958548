"""Tables whose totals are the sums of their rows.

Units, thousands separators and both decimal signs are read. Tolerance: a number written with
decimals stands for anything within half of its last digit, so a sum may be off by half a last digit
for each of its terms and for the total. Whole numbers are exact, unless marked with ~, or percent,
or the total of terms with decimals: 14 + 56 + 14 + 15 is 99 and nothing else.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from course_lib.lab.journal.entry import Entry
from course_lib.lab.journal.finding import Finding, shorten_text

TOTAL = re.compile(
    r"(?:grand |overall )?(?:totals?|totale|sum|sums|summe|gesamt|somme|suma|\u03a3"
    r"|\u5408\u8ba1|\u5408\u8a08|\u603b\u8ba1|\u7e3d\u8a08|\u603b\u548c|\u603b\u5171|\u5408\u5171)"
    r"(?: (?:memory|time|bytes|parameters|params|cost))?\s*(?:[(\[:,\uff08\uff1a].*|in \w+)?",
    re.IGNORECASE,
)
"""The whole label: "total batch size" is a product, and "sum of squares" a row like others."""
SUBTOTAL = re.compile(
    r"(?:sub-?total|zwischensumme|sous-total|\u5c0f\u8ba1|\u5c0f\u8a08).*", re.IGNORECASE
)
NUMBER = re.compile(
    r"(?P<about>[~\u2248]|about |ca\.? )?\s*(?P<sign>[-+\u2212])?\s*"
    r"(?P<digits>\d[\d.,'_\u00a0\u202f\u2009 ]*\d|\d)(?:e(?P<power>[-+]?\d{1,2}))?\s*"
    r"(?P<unit>[^\d\s,.;|]{1,12})?",
    re.IGNORECASE,
)
BLANK = re.compile(r"[-\u2013\u2014.\s]*|n/?a", re.IGNORECASE)
BYTES = {"b": 0, "byte": 0, "bytes": 0, "kb": 1, "mb": 2, "gb": 3, "tb": 4}
SECONDS = {"ns": 1e-9, "us": 1e-6, "\u00b5s": 1e-6, "\u03bcs": 1e-6, "ms": 1e-3, "s": 1.0,
           "sec": 1.0, "min": 60.0, "h": 3600.0}  # fmt: skip


@dataclass(frozen=True)
class Amount:
    """A number as it was written: its value and how far the truth may be from it."""

    value: float
    slack: float
    decimals: int
    unit: str
    rounded: bool


def sums(entry: Entry) -> Iterator[Finding]:
    """One finding for each column whose total no reading of the numbers explains."""
    for lines in _tables(entry):
        header, rows = _cells(lines[0][1]), [(n, _cells(line)) for n, line in lines[2:]]
        for at, (number, row) in enumerate(rows):
            if not row or not _matches(TOTAL, row[0]):
                continue
            for column in range(1, len(row)):
                wrong = _right_sum(rows, at, column)
                if wrong:
                    name = header[column] if column < len(header) else f"column {column + 1}"
                    yield Finding(
                        number,
                        "SUM",
                        f"the total of {shorten_text(name, 30)!r} is not its rows' sum",
                        wrong,
                        row[column].strip(),
                        "correct a row or the total; mark numbers that are rounded with ~",
                    )


def _tables(entry: Entry) -> Iterator[list[tuple[int, str]]]:
    """Runs of lines with cells, the second of which is the rule under the header."""
    run: list[tuple[int, str]] = []
    for number, (line, kind) in enumerate(
        [*zip(entry.lines, entry.kinds, strict=True), ("", "blank")], 1
    ):
        if kind == "text" and "|" in line:
            run.append((number, line))
            continue
        if len(run) > 2 and re.fullmatch(r"[\s|:-]+", run[1][1]) and "-" in run[1][1]:
            yield run
        run = []


def _cells(line: str) -> list[str]:
    """The cells without emphasis and code marks."""
    line = line.strip().removeprefix("|")
    line = line[:-1] if line.endswith("|") and not line.endswith("\\|") else line
    return [re.sub(r"[*`$]|__", "", cell).strip() for cell in re.split(r"(?<!\\)\|", line)]


def _matches(kind: re.Pattern, label: str) -> bool:
    return bool(kind.fullmatch(label.strip()))


def _right_sum(rows: list, at: int, column: int) -> str | None:
    """What the total should be, when none of the ways to read the column gives it."""
    wanted = None
    for comma in (False, True):
        for part in _parts(rows, at):
            cells = [rows[i][1][column] if column < len(rows[i][1]) else "" for i in part]
            total = amount(rows[at][1][column], comma)
            terms = [amount(cell, comma) for cell in cells if not BLANK.fullmatch(cell)]
            if total is None or len(terms) < 2 or None in terms:
                continue
            fits, said = _adds_up(terms, total)
            if fits:
                return None
            wanted = wanted or said
    return wanted


def _parts(rows: list, at: int) -> list[list[int]]:
    """The rows that a total may be of: all above, those since the last total, or all below it."""
    plain = [
        i
        for i, (_, row) in enumerate(rows)
        if row and not _matches(TOTAL, row[0]) and not _matches(SUBTOTAL, row[0])
    ]
    totals = [
        i
        for i, (_, row) in enumerate(rows[:at])
        if row and (_matches(TOTAL, row[0]) or _matches(SUBTOTAL, row[0]))
    ]
    above = [i for i in plain if i < at]
    since = [i for i in above if i > totals[-1]] if totals else above
    return [above, since] if above else [[i for i in plain if i > at]]


def amount(cell: str, comma: bool = False) -> Amount | None:
    """A cell as a number, or None when it is anything else. `comma`: 1.024,5 for 1,024.5."""
    cell = re.sub(r"\s*[(\uff08][^()\uff08\uff09]*[)\uff09]\s*$", "", cell.strip())  # a remark
    match = NUMBER.fullmatch(cell)
    if match is None:
        return None
    digits = re.sub(r"['_\u00a0\u202f\u2009 ]", "", match["digits"])
    group, point = (".", ",") if comma else (",", ".")
    whole, _, decimals = digits.partition(point)
    grouped = re.fullmatch(rf"\d{{1,3}}(?:{re.escape(group)}\d{{3}})+|\d+", whole)
    if not grouped or not re.fullmatch(r"\d*", decimals):
        return None
    scale = 10.0 ** int(match["power"] or 0)
    value = float(f"{whole.replace(group, '')}.{decimals or 0}") * scale
    value = -value if match["sign"] in ("-", "\u2212") else value
    unit = match["unit"] or ""
    if "/" in unit or unit.lower() in ("x", "\u00d7"):  # rates do not add; factors multiply
        return None
    rounded = bool(match["about"]) or unit == "%" or bool(decimals) or bool(match["power"])
    return Amount(value, 0.5 * 10.0 ** -len(decimals) * scale, len(decimals), unit, rounded)


def _adds_up(terms: list[Amount], total: Amount) -> tuple[bool, str]:
    """Whether the terms add up to the total within their rounding, and the sum to write if not."""
    said = ""
    for base in (1000.0, 1024.0):
        factors = [_factor(a, [*terms, total], base) for a in (*terms, total)]
        if None in factors:
            return True, ""  # units that cannot be compared: nothing can be said
        total_slack = total.slack if total.rounded or any(t.decimals for t in terms) else 0.0
        exact = sum(t.value * f for t, f in zip(terms, factors, strict=False))
        slack = sum(t.slack * f for t, f in zip(terms, factors, strict=False) if t.rounded)
        slack += total_slack * factors[-1]
        if abs(exact - total.value * factors[-1]) <= slack * (1 + 1e-9) + 1e-9 * abs(exact):
            return True, ""
        places = max(t.decimals for t in terms)
        said = said or f"{exact / factors[-1]:,.{places}f} {total.unit}".strip()
    return False, f"{said} ({' + '.join(f'{t.value:g}' for t in terms)})"


def _factor(one: Amount, every: list[Amount], base: float) -> float | None:
    """What the number is multiplied by, to compare; None for units that do not go together."""
    units = {a.unit for a in every} - {""}
    if len(units) < 2:
        return 1.0
    small = one.unit.lower()
    if all(u.lower().replace("i", "") in BYTES and len(u) > 1 for u in units):
        step = 1024.0 if "i" in small else base
        return step ** BYTES[small.replace("i", "")] if one.unit else None
    if all(u in SECONDS for u in units):
        return SECONDS.get(one.unit)
    return None
