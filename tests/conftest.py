"""Settings for all tests: what did not run is listed at the end, with the reason."""

from __future__ import annotations

import pytest

ANSWERS = pytest.StashKey[dict]()


@pytest.fixture(scope="session")
def exercise_table(pytestconfig: pytest.Config) -> dict[str, dict[str, int]]:
    """Counts by exercise, printed at the end of the run as one table."""
    return pytestconfig.stash.setdefault(ANSWERS, {})


FIRST = ("test_house", "test_views")
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
    table = terminalreporter.config.stash.get(ANSWERS, {})
    if table:
        terminalreporter.write_sep("=", "Answers by exercise")
        head = f"{'exercise':<16}{'mutants':>9}{'killed':>8}{'named rightly':>15}"
        head += f"{'alternatives accepted':>23}"
        terminalreporter.write_line(head)
        for exercise, n in table.items():
            accepted = f"{n['accepted']} of {n['right']}"
            terminalreporter.write_line(f"{exercise:<16}{n['mutants']:>9}{n['killed']:>8}"
                                        f"{n['named']:>15}{accepted:>23}")  # fmt: skip
    skipped = terminalreporter.stats.get("skipped", [])
    if not skipped:
        return
    terminalreporter.write_sep("=", f"Not run on this machine: {len(skipped)}", yellow=True)
    for report in skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        terminalreporter.write_line(f"{report.nodeid}: {str(reason).removeprefix('Skipped: ')}")
