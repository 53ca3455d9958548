"""`--trace`: a profile of some updates in the folder of the run, and the training stays the same."""

import gzip
import io
import json
import sys
from pathlib import Path

import pytest

from course_lib.training.ddp_trainer import DistributedTrainer
from course_lib.training.fsdp_trainer import FSDPTrainer
from tests.fsdp_runs import make, on_ranks, settings, single, values

KINDS = {"ddp": DistributedTrainer, "fsdp": FSDPTrainer}

pytestmark = pytest.mark.usefixtures("one_thread")


def train(kind: str, out: str, **changes) -> float:
    config = settings(out, max_steps=6, eval_batches=0, save_every=0, **changes)
    return make(config, KINDS[kind]).fit()["loss"]


def train_both_ways(kind: str, out: str) -> tuple[float, float]:
    sys.stdout = sys.stderr = io.StringIO()  # a forked rank has none
    return train(kind, f"{out}/plain"), train(kind, f"{out}/traced", trace=2, trace_ranks=2)


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_leaves_a_trace_of_its_updates_on_as_many_ranks_as_asked(kind, tmp_path):
    found = values(on_ranks(3, train_both_ways, kind, str(tmp_path)))
    assert all(rank == (found[0][0], found[0][0]) for rank in found), "to the bit"
    assert not list((tmp_path / "plain").glob("trace*"))
    traces = sorted((tmp_path / "traced").glob("trace*"))
    assert [path.name for path in traces] == ["trace_rank0.json.gz", "trace_rank1.json.gz"]
    for path in traces:
        names = names_in(path)
        assert names.count("Optimizer.step#AdamW.step") == 2, "updates"
        assert any("all_reduce" in name or "allreduce" in name for name in names)


def names_in(path: Path) -> list[str]:
    with gzip.open(path, "rt") as stream:
        return [event.get("name", "") for event in json.load(stream)["traceEvents"]]


def test_one_line_says_where_it_is(tmp_path, capsys):
    settings_of_run = dict(max_steps=6, eval_batches=0, save_every=0, trace=1)
    single(out=tmp_path, **settings_of_run).fit()
    said = [line for line in capsys.readouterr().out.splitlines() if "trace" in line]
    assert said == [
        f"trace of 1 update in {tmp_path}/trace_rank0.json.gz: open it in ui.perfetto.dev, which "
        f"reads it in the browser, or in chrome://tracing"
    ]
