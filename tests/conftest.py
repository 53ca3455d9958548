"""Settings for all tests: what did not run is listed at the end, with the reason."""

from __future__ import annotations

import functools
import os
import re
import signal
from collections import Counter, defaultdict

import hypothesis
import pytest
from xdist.scheduler import LoadScopeScheduling

from course_lib.lab import registry

if "PYTEST_XDIST_WORKER" in os.environ:
    # Two workers with two threads each wait for one another: three times the time on two cores.
    # Set before torch is imported, and passed on to kernels, servers and programs.
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# A busy machine is no failure: neither an example nor the making of one is timed.
BUSY = [hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.function_scoped_fixture]
hypothesis.settings.register_profile("course", deadline=None, suppress_health_check=BUSY)
hypothesis.settings.load_profile("course")

# A shell without job control starts what runs in the background deaf to Ctrl-C, its children too.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def course_home(tmp_path, monkeypatch):
    """An empty course home of the test's own; nobody is grading, and nothing has been said yet."""
    from course_lib.lab import events

    monkeypatch.setenv("COURSE_HOME", str(tmp_path))
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    events._warn_once.cache_clear()
    return tmp_path


@pytest.fixture(scope="module")
def one_thread():
    """Sums in one order, on every machine."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


MOST_WORKERS = 8  # each holds torch and starts ranks, kernels and servers of its own
FIRST = ("test_house", "test_views")  # what breaks most often is said in the first minute
LONG = (  # then the longest, and among them the one that builds the site
    "test_site.py", "test_judge_rows", "test_trainer", "test_readme", "test_launch", "test_nbgrader",
    "test_notebooks", "test_fsdp", "browser",
)  # fmt: skip
LATE = ("test_site_", "test_exercises", "test_judge_worker")  # looks at the built site; short ones
EXERCISE = rf"({'|'.join(sorted(registry.exercises(), key=len, reverse=True))})(?=[-:\]])"
BY_EXERCISE = ("test_exercises", "test_judge_worker")
ONE_BY_ONE = ("test_notebooks", "test_readme")  # each test starts all that it needs


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """A worker for each core that this process may use and two more, up to MOST_WORKERS.

    For a third of the time a worker waits: for a browser, a kernel, a limit that must pass.
    """
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        cores = os.cpu_count() or 1
    return min(cores + 2, MOST_WORKERS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Orders the tests."""
    items.sort(key=lambda item: find_place(item.nodeid))


class Groups(LoadScopeScheduling):
    """Gives each group of tests to one worker.

    Not `--dist loadgroup`: with pytest 9.2 xdist 3.8 loses the groups and says nothing (pytest-xdist
    issue 1386).
    """

    def _split_scope(self, nodeid: str) -> str:
        return find_group(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log) -> Groups:
    return Groups(config, log)


def find_place(test: str) -> int:
    """Where in the order a test stands: smaller is earlier."""
    file, _, name = test.partition("::")
    order = (*FIRST, *LONG)
    if late := next((i for i, part in enumerate(LATE, 1) if part in file), "[mode" in name):
        return len(order) + late
    return next((i for i, part in enumerate(order) if part in file), len(order))


def find_group(test: str) -> str:
    """The exercise of a test of one exercise, else the file; the test itself where it may go alone.

    One worker takes a group: verdicts on an answer, a walk over the site in one mode and the
    fixtures of a file serve several tests.
    """
    file, _, name = test.partition("::")
    _, _, about = name.partition("[")
    if any(part in file for part in ONE_BY_ONE):
        return test
    if any(part in file for part in BY_EXERCISE):
        named = re.match(EXERCISE, about)
        return named[1] if named else file
    return f"{file} {about}" if about.startswith("mode") else file


def pytest_runtest_logstart(nodeid: str) -> None:
    """The worker that builds the site comes first: its tests take the longest, one after another."""
    if "PYTEST_XDIST_WORKER" in os.environ and LONG[0] not in nodeid:
        step_back()


@functools.cache
def step_back() -> None:
    """Leave the processors to those in a hurry; once, since niceness adds up."""
    os.nice(5)


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
