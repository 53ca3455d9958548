"""The log of a run: one row per update, exact after a kill, drawn at the end."""

import sys

import pytest

from course_lib.runs import run_log
from course_lib.runs.run_log import RunLog


def row(step: int, **more) -> dict:
    return {"step": step, "loss": 9.0 - step / 7, "lr": 1e-3, "tokens_per_s": 1000.0} | more


def test_rows_come_back_with_all_digits(tmp_path):
    log = RunLog(tmp_path, total=3)
    for step in (1, 2, 3):
        log.write(row(step, **({"valid_loss": 8.5} if step == 3 else {})))
    log.close()
    rows = run_log.read(tmp_path / "log.csv")
    assert [r["step"] for r in rows] == [1, 2, 3]
    assert rows[0]["loss"] == pytest.approx(9.0 - 1 / 7, rel=1e-8)
    assert "valid_loss" not in rows[0] and rows[2]["valid_loss"] == 8.5
    assert (tmp_path / "curves.png").read_bytes()[:4] == b"\x89PNG"


def test_a_resumed_run_drops_what_it_does_again(tmp_path):
    log = RunLog(tmp_path, total=9)
    for step in (1, 2, 3, 4):
        log.write(row(step))
    with log.path.open("a") as stream:
        stream.write("5,8.1")  # a kill in the middle of a row
    again = RunLog(tmp_path, total=9, done=2)
    again.write(row(3, lr=5e-4))
    again.close()
    rows = run_log.read(tmp_path / "log.csv")
    assert [(r["step"], r["lr"]) for r in rows] == [(1, 1e-3), (2, 1e-3), (3, 5e-4)]


def test_a_log_of_fewer_columns_is_gone_on_with(tmp_path):
    """Begun by an earlier edition, whose rows ended before today's last columns."""
    (tmp_path / "log.csv").write_text("step,loss,valid_loss,lr\n1,9.5,,0.001\n", encoding="utf-8")
    log = RunLog(tmp_path, total=2, done=1)
    log.write(row(2, slowest_rank=3))
    log.close()
    first, second = run_log.read(tmp_path / "log.csv")
    assert first == {"step": 1, "loss": 9.5, "lr": 1e-3} and second["slowest_rank"] == 3


def test_other_ranks_write_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log = RunLog(None, total=3)
    log.write(row(1))
    log.close()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "name, module", [("tensorboard", "torch.utils.tensorboard"), ("wandb", "wandb")]
)
def test_a_missing_logger_is_said_at_once(tmp_path, monkeypatch, name, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ValueError, match=f"--{name} needs the package {name}"):
        RunLog(tmp_path, total=3, **{name: True})


def test_wandb_is_offline_unless_it_is_asked_for(tmp_path, monkeypatch):
    """A stand-in records how it is called; the package itself is not needed."""
    calls = []

    class Run:
        def log(self, row, step):
            calls.append((step, row))

        def finish(self):
            calls.append("finish")

    class Wandb:
        @staticmethod
        def init(**given):
            calls.append(given)
            return Run()

    monkeypatch.setitem(sys.modules, "wandb", Wandb)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    log = RunLog(tmp_path, total=1, wandb=True, settings={"lr": 1})
    log.write(row(1))
    log.close()
    assert calls[0]["mode"] == "offline" and calls[0]["config"] == {"lr": 1}
    assert calls[1][0] == 1 and "step" not in calls[1][1] and calls[2] == "finish"
