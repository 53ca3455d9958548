"""The wish that a program stops soon, and in order: Ctrl-C, SIGTERM, or SIGUSR2.

What it is: `StopRequest`, which notes the first signal instead of dying of it. What it leaves out:
what is finished first (`DistributedTrainer.fit`), and how several ranks agree.

SIGTERM is what torchrun, Slurm and container engines send before they kill. SIGUSR2 means the same
here, since torchrun ends with an error after a SIGTERM, however well its ranks have ended. (SIGUSR1
asks a rank of `%torchrun` where it is.)
"""

import os
import signal
import time

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR2)
ECHO_S = 1.0  # torchrun passes a signal on that its ranks may have had already
SAID = b"\nstopping after this step; once more ends it at once\n"


class StopRequest:
    """Inside its `with` block the first of SIGNALS is noted; a second one ends the process at once.

    A signal that comes within ECHO_S of the first counts as the same one. To be entered from the
    main thread, where Python allows handlers; elsewhere ValueError.
    """

    def __init__(self):
        self.received: signal.Signals | None = None
        """The signal that has come; None as long as there was none."""
        self._came = 0.0
        self._before: dict = {}

    def __enter__(self) -> "StopRequest":
        self._before = {number: signal.signal(number, self._note) for number in SIGNALS}
        return self

    def __exit__(self, *error) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame) -> None:
        now = time.monotonic()
        if self.received is None:
            self.received, self._came = signal.Signals(number), now
            if os.environ.get("RANK", "0") == "0":
                os.write(2, SAID)  # print may be under way already, and must not be entered twice
        elif now > self._came + ECHO_S:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
