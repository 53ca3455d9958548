"""Commit to a number before it is measured, then see both."""

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
    print(f"Noted: {guess}{' ' + unit if unit else ''}. The measurement comes further down.")


def reveal(name: str, measured: float | str, *, unit: str = "") -> None:
    """Print the measurement beside the last prediction of that name."""
    guesses = [
        e.get("guess") for e in events.read() if e["kind"] == "predict" and e.get("item") == name
    ]
    unit = f" {unit}" if unit else ""
    shown = f"{measured:.4g}" if isinstance(measured, float) else measured
    events.record("reveal", item=name, measured=measured)
    print(f"measured {shown}{unit}" + (f"   predicted {guesses[-1]}{unit}" if guesses else ""))
