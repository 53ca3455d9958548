"""The judge of an instructor who is not root, when it is root who runs the tests.

Root's workers become nobody. Those of anybody else keep their user, who owns the gradebook and the
submissions: so what the confinement promises is tried again by a process that has given up root.
"""

import os
import subprocess
import sys
import tempfile

import pytest

from grader.course import ROOT
from tests.confined import shared_client
from tests.soak import campaign, times

ORDINARY = 12_345  # a user without an account is one like any other
TRIED = {
    "test_judge_sandbox.py": "",
    "test_judge_attacks.py": times("outside or allowance or reference_is_nowhere", ""),
    "test_judge_ranks.py": times("share_its_memory or world_outside", ""),
    "test_judge_worker.py": times(
        "right_in_a_notebook or clock or stays_where", "not of_the_notebook"
    ),
    "test_judge_marks.py": times("driven or flagged", ""),
    "test_judge_batch.py": "vanishes or points_and or alone",
    "test_judge_submission.py": "seconds or megabyte or large",
}
"""By file, which of its tests. A short run takes the first two files, a long one all."""


def run_as_user(*command: str, folder) -> subprocess.CompletedProcess:
    """Run a program as `ORDINARY`, with `folder` as its home."""
    os.chown(folder, ORDINARY, ORDINARY)
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, "HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
        user=ORDINARY,
        group=ORDINARY,
        extra_groups=[],
        capture_output=True,
        text=True,
    )


@pytest.fixture
def home():
    """A folder that others reach; pytest's own are closed to them."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield folder


@campaign
@pytest.mark.parametrize("file", list(TRIED)[: times(2, len(TRIED))])
def test_what_is_promised_to_root_is_promised_to_everybody(file, home):
    if os.getuid() != 0:
        pytest.skip("whoever runs these tests is an ordinary user")
    shared_client()
    try:
        closed = run_as_user("-c", "import grader.judge.judge", folder=home).returncode
    except PermissionError:  # its Python lies in root's own folder
        closed = True
    if closed:
        pytest.skip(f"{ROOT} or its environment is closed to other users")
    options = ("-q", "-p", "no:cacheprovider", f"--basetemp={home}/tests", "-k", TRIED[file])
    done = run_as_user("-m", "pytest", f"tests/{file}", *options, folder=home)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "." in done.stdout.split()[0], f"not one of them ran: {done.stdout[-1000:]}"
