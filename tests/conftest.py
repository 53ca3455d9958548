"""Settings for all tests: what did not run is listed at the end, with the reason."""

from __future__ import annotations

import os
import signal
from collections import Counter, defaultdict

import pytest

if "PYTEST_XDIST_WORKER" in os.environ:
    # Two workers with two threads each wait for one another: three times the time on two cores.
    # Set before torch is imported, and passed on to kernels, servers and programs.
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# A shell without job control starts what runs in the background deaf to Ctrl-C, its children too.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def course_home(tmp_path, monkeypatch):
    """An empty course home of the test's own; nobody is grading, and nothing has been said yet."""
    from course_lib.lab import events

    monkeypatch.setenv("COURSE_HOME", str(tmp_path))
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    events._warn.cache_clear()
    return tmp_path


@pytest.fixture(scope="module")
def one_thread():
    """Sums in one order, on every machine."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


FIRST = ("test_house", "test_views", "test_site.py")  # fast ones; then the longest: two workers
LAST = ("test_notebooks", "test_nbgrader", "test_readme", "browser")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Fast checks first: what breaks most often is said in the first minute."""

    def place(item: pytest.Item) -> int:
        first = [i for i, name in enumerate(FIRST) if name in item.nodeid]
        last = [i for i, name in enumerate(LAST) if name in item.nodeid]
        return first[0] - len(FIRST) if first else 1 + last[-1] if last else 0

    items.sort(key=place)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints the table of answers, and each skipped test with its reason: a skip is not a pass."""
    table: dict[str, Counter] = defaultdict(Counter)
    for report in terminalreporter.stats.get("passed", []) + terminalreporter.stats.get(
        "failed", []
    ):
        for exercise, counts in (
            value for name, value in report.user_properties if name == "answer"
        ):
            table[exercise].update(counts)
    if table:
        terminalreporter.write_sep("=", "Answers by exercise")
        head = f"{'exercise':<16}{'mutants':>9}{'killed':>8}{'named rightly':>15}"
        head += f"{'alternatives accepted':>23}"
        terminalreporter.write_line(head)
        for exercise, n in sorted(table.items()):
            accepted = f"{int(n['accepted'])} of {int(n['right'])}"
            terminalreporter.write_line(
                f"{exercise:<16}{n['mutants']:>9}{n['killed']:>8}{n['named']:>15}{accepted:>23}"
            )
    rows = [
        value
        for status in ("passed", "failed")
        for report in terminalreporter.stats.get(status, [])
        for name, value in report.user_properties
        if name == "row"
    ]
    if rows:
        terminalreporter.write_sep("=", "Hostile submissions by row of the acceptance list")
        terminalreporter.write_line(f"row    n  {'rotate-half':<54}apply-rope")
        for row in rows:
            terminalreporter.write_line(row)
    skipped = terminalreporter.stats.get("skipped", [])
    if not skipped:
        return
    terminalreporter.write_sep("=", f"Not run on this machine: {len(skipped)}", yellow=True)
    for report in skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        terminalreporter.write_line(f"{report.nodeid}: {str(reason).removeprefix('Skipped: ')}")
