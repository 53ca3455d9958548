"""Commit to a number before it is measured or computed, then see both."""

from course_lib.lab import events


def predict(
    name: str,
    guess: float | str | None = None,
    *,
    unit: str = "",
    confidence: int | None = None,
) -> None:
    """Record a prediction under `name`; `None` says that the guess is still to be written.

    `confidence`, 1 (a guess) to 5 (certain), may be given: the ledger compares it with what comes.
    """
    events.sureness(confidence)
    if guess is None:
        print(f'No guess yet: write one in place of None, then run this cell. ("{name}")')
        return
    events.record("predict", item=name, guess=guess, unit=unit or None, confidence=confidence)
    print(f"Noted: {guess}{' ' + unit if unit else ''}. The answer comes further down.")


def reveal(name: str, value: float | str, *, unit: str = "", computed: bool = False) -> None:
    """Print what came out beside the last prediction of that name.

    It is called measured, or computed where `value` is arithmetic that no measurement went into.
    """
    guesses = [
        e.get("guess") for e in events.read() if e["kind"] == "predict" and e.get("item") == name
    ]
    unit = f" {unit}" if unit else ""
    shown = f"{value:.4g}" if isinstance(value, float) else value
    events.record("reveal", item=name, measured=value)
    said = f"{'computed' if computed else 'measured'} {shown}{unit}"
    print(said + (f"   predicted {guesses[-1]}{unit}" if guesses else ""))
