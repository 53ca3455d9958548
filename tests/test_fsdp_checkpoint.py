"""Sharded checkpoints: read back by any number of ranks, published whole, checked, refused clearly."""

import contextlib
import dataclasses
import json
import os
import pickle
import random
import resource
import shutil
import signal
import threading
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import BytesStorageMetadata, MetadataIndex

from course_lib.checkpoints import manifest
from course_lib.checkpoints.files import CheckpointError
from course_lib.checkpoints.sharded import candidates
from course_lib.checkpoints.whole import main, whole_state
from course_lib.ranks import local_ranks
from course_lib.ranks.traffic import Traffic
from course_lib.training.fsdp_trainer import FSDPTrainer
from tests.fsdp_runs import (
    REL,
    TOKENS,
    V,
    make,
    on_ranks,
    same,
    settings,
    single,
    state_of,
    steps,
    values,
)
from tests.soak import campaign, times

pytestmark = pytest.mark.usefixtures("one_thread")


def trained(config, count=3, **changes):
    """Train, save, and go on: (path, whole state when saved, next losses)."""
    trainer = make(config, **changes)
    steps(trainer, count)
    path = trainer.save_checkpoint()
    state = state_of(trainer)
    after = steps(trainer, 2)
    trainer.checkpoints.wait()
    return path, state, after, trainer.tokens_seen


def resumed(config, path=None, kind=FSDPTrainer):
    """Load and go on, after whatever else this process has drawn."""
    torch.manual_seed(99)
    trainer = make(config, kind)
    step = trainer.load_checkpoint(path)
    return step, state_of(trainer), steps(trainer, 2), trainer.tokens_seen


def each(work, configs: list) -> list:
    """`work(config)` for each, on the same ranks."""
    return [work(config) for config in configs]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A sharded checkpoint of two ranks: its folder, the state in it, the losses that follow."""
    config = settings(tmp_path_factory.mktemp("run"))
    path, state, after, seen = on_ranks(2, trained, config)[0].value
    return config, path, state, after, seen


def losses(rows: list[dict]) -> list[float]:
    return [row["loss"] for row in rows]


@pytest.mark.parametrize("ranks", [1, 3, 4])  # two: where training goes on while a copy is written
def test_any_number_of_ranks_reads_what_two_have_written(saved, ranks):
    config, path, state, after, seen = saved
    layouts = [config, dataclasses.replace(config, sharding="NO_SHARD")][: 1 + (ranks == 3)]
    for found in values(on_ranks(ranks, each, resumed, layouts)):
        for step, loaded, following, tokens in found:
            assert step == 3 and tokens == seen
            assert same(loaded, state), "bit for bit"
            assert losses(following) == pytest.approx(losses(after), rel=REL)


def test_the_plain_trainer_reads_it_and_so_does_torch(saved, tmp_path, capsys):
    config, path, state, after, _ = saved
    one = single(out="unused")
    assert one.load_checkpoint(path) == 3
    assert same(state_of(one), state)
    assert losses(steps(one, 2)) == pytest.approx(losses(after), rel=REL)
    main([path, tmp_path / "whole.pt"])
    assert "whole.pt: step 3" in capsys.readouterr().out
    found = torch.load(tmp_path / "whole.pt", weights_only=True)
    assert same(found["model"], one_state(path))
    again = single(out="unused")
    again.load_checkpoint(tmp_path / "whole.pt")
    assert same(state_of(again), state)


def one_state(path: Path) -> dict:
    return whole_state(path)["model"]


def test_every_part_is_written_once(saved):
    """Two files of half the weights and moments each; nothing was gathered for it."""
    _, path, state, *_ = saved
    sizes = {p.name: p.stat().st_size for p in path.glob("*.distcp")}
    numbers = sum(4 * t.numel() for t in state.values()) + 4 * V * 128  # tied: under two names
    assert sorted(sizes) == ["__0_0.distcp", "__1_0.distcp"]
    assert numbers < sum(sizes.values()) < 1.1 * numbers + 200_000  # torch.save adds some 1 KB each
    assert max(sizes.values()) < 0.55 * sum(sizes.values())
    record = json.loads((path / "manifest.json").read_text())
    assert set(record["files"]) == {".metadata", "plain.pt", *sizes}
    assert record["world_size"] == 2


def saves(config) -> list:
    trainer = make(config)
    steps(trainer, 1)
    trainer.save_checkpoint()  # first use makes a group
    with Traffic() as traffic:
        trainer.save_checkpoint()
    return traffic.seen


def test_sharded_sends_no_weights_and_full_sends_them_all(tmp_path):
    kinds = [settings(tmp_path / kind, checkpoint=kind) for kind in ("sharded", "full")]
    sharded, full = on_ranks(2, each, saves, kinds)[0].value
    numel = sum(p.numel() for p in single().plain_model.parameters())
    assert sum(b for _, b in sharded) < 0.1 * 4 * numel, "plans and random states"
    gathered = sum(b for name, b in full if name == "allgather")
    assert gathered >= 12 * numel


def test_copies_are_written_once(tmp_path):
    config = settings(tmp_path, sharding="HYBRID_SHARD", shard_size=2)
    path, state, _, _ = on_ranks(4, trained, config)[0].value
    numbers = sum(4 * t.numel() for t in state.values()) + 4 * V * 128
    assert sum(p.stat().st_size for p in path.glob("*.distcp")) < 1.1 * numbers + 200_000
    one = single()
    one.load_checkpoint(path)
    assert same(state_of(one), state)


def test_full_is_the_file_of_the_plain_trainer(tmp_path):
    config = settings(tmp_path, checkpoint="full")
    path, state, after, _ = on_ranks(2, trained, config)[0].value
    assert path.name == "step_00000003.pt"
    one = single()
    one.load_checkpoint(path)
    assert same(state_of(one), state)
    assert losses(steps(one, 2)) == pytest.approx(losses(after), rel=REL)
    step, loaded, following, _ = on_ranks(3, resumed, config)[0].value
    assert step == 3 and same(loaded, state)
    assert losses(following) == pytest.approx(losses(after), rel=REL)


def test_a_file_of_the_plain_trainer_is_read_sharded(tmp_path):
    one = single(out=tmp_path)
    steps(one, 3)
    path = one.save_checkpoint()
    state, after = state_of(one), steps(one, 2)
    both = on_ranks(2, lambda: [resumed(settings(tmp_path), given) for given in (path, None)])
    for step, loaded, following, _ in both[0].value:
        assert step == 3 and same(loaded, state)
        assert losses(following) == pytest.approx(losses(after), rel=REL)


def behind(config, gate: Path):
    """Save in the background, with a writer that waits for the gate; train meanwhile."""
    write = dcp.FileSystemWriter.write_data

    def slow(self, plan, planner):
        while not gate.exists():
            time.sleep(0.01)
        return write(self, plan, planner)

    dcp.FileSystemWriter.write_data = slow
    trainer = make(config)
    steps(trainer, 3)
    path = trainer.save_checkpoint()
    state = state_of(trainer)
    after = steps(trainer, 2)
    early = path.exists()
    dist.barrier()
    gate.touch()
    trainer.checkpoints.wait()
    return path, state, after, early


def test_training_goes_on_while_a_copy_is_written(tmp_path):
    config = settings(tmp_path / "run", async_save=True)
    path, state, after, early = on_ranks(2, behind, config, tmp_path / "gate")[0].value
    assert not early, "not published before it is written"
    step, loaded, following, _ = on_ranks(2, resumed, config)[0].value
    assert step == 3 and same(loaded, state), "what was when it was saved, not what came after"
    assert following == after


def test_the_last_ones_are_kept(tmp_path):
    def many(config):
        trainer = make(config)
        for _ in range(4):
            steps(trainer, 1)
            trainer.save_checkpoint()
        trainer.save_checkpoint()  # the same step again replaces it
        trainer.checkpoints.wait()

    configs = [settings(tmp_path / str(a), async_save=a, keep=2) for a in (False, True)]
    on_ranks(2, each, many, configs)
    for async_save in (False, True):
        folder = tmp_path / str(async_save) / "checkpoints"
        assert sorted(p.name for p in folder.iterdir()) == ["step_00000003", "step_00000004"]
        assert [whole_state(p)["step"] for p in candidates(folder)] == [4, 3]


def cut(path):
    shard = path / "__1_0.distcp"
    shard.write_bytes(shard.read_bytes()[:-100])


def flip(path):
    shard = path / "__0_0.distcp"
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)


def lose(path):
    (path / "__1_0.distcp").unlink()


def damage(path):
    (path / "manifest.json").write_text("{")


def emptied(path):
    (path / "manifest.json").write_text('{"files": {"a": 3}}')


def newest(config) -> tuple[int, list[str]]:
    """The step of the newest good checkpoint, or -1 for none that is good, and what was said."""
    said = []
    trainer = make(config)
    names = [name for group in trainer.optimizer_groups() for name in group["names"]]
    try:
        return trainer.checkpoints.open_newest(names, said.append).plain["step"], said
    except CheckpointError as error:
        return -1, [*said, str(error)]


def two_checkpoints(config):
    trainer = make(config)
    for _ in range(2):
        steps(trainer, 1)
        trainer.save_checkpoint()


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pair")
    on_ranks(2, two_checkpoints, settings(folder))
    return folder


HARMS = {cut: "cut short", flip: "changed", lose: "missing", damage: "damaged", emptied: "damaged"}


def test_a_bad_one_is_named_and_the_one_before_is_used(pair, tmp_path):
    folders = []
    for harm in HARMS:
        for steps_harmed in ((2,), (1, 2)):
            folders.append(tmp_path / f"{harm.__name__}{len(steps_harmed)}")
            shutil.copytree(pair, folders[-1])
            for step in steps_harmed:
                harm(folders[-1] / f"checkpoints/step_{step:08d}")
    by_rank = values(on_ranks(2, each, newest, [settings(folder) for folder in folders]))
    assert by_rank[0] == by_rank[1], "every rank comes to the same"
    for number, (harm, word) in enumerate(HARMS.items()):
        (step, said), (none, all_said) = by_rank[0][2 * number : 2 * number + 2]
        assert step == 1 and len(said) == 1, harm
        assert word in said[0] and "step_00000002" in said[0]
        assert none == -1 and len(all_said) == 3 and "none of the 2 checkpoints" in all_said[2]
        with pytest.raises(CheckpointError, match=word):
            whole_state(folders[2 * number] / "checkpoints/step_00000002")


def test_an_unfinished_folder_does_not_count(pair, tmp_path):
    shutil.copytree(pair, tmp_path / "run")
    folder = tmp_path / "run/checkpoints"
    (folder / "step_00000002/manifest.json").unlink()
    shutil.copytree(folder / "step_00000001", folder / "step_00000009.part")
    (folder / "step_00000007").mkdir()
    assert [p.name for p in candidates(folder)] == ["step_00000001"]
    on_ranks(2, two_checkpoints, settings(tmp_path / "run"))
    assert not list(folder.glob("*.part")), "the next save sweeps"


def test_a_replacement_cut_between_two_names_is_found(pair, tmp_path):
    shutil.copytree(pair, tmp_path / "run")
    folder = tmp_path / "run/checkpoints"
    (folder / "step_00000002").rename(folder / "step_00000002.old")
    step, said = on_ranks(2, newest, settings(tmp_path / "run"))[0].value
    assert step == 2 and not said
    on_ranks(1, two_checkpoints, settings(tmp_path / "run"))
    assert sorted(p.name for p in folder.iterdir()) == ["step_00000001", "step_00000002"]


class Runs:
    """Unpickled, it leaves a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_an_index_from_a_stranger_runs_nothing(pair, tmp_path):
    path = tmp_path / "step_00000002"
    shutil.copytree(pair / "checkpoints/step_00000002", path)
    (path / ".metadata").write_bytes(pickle.dumps(Runs(tmp_path / "ran")))
    record = manifest.read(path)
    record["files"] |= manifest.describe(path, [".metadata"])
    (path / "manifest.json").write_text(json.dumps(record))
    with pytest.raises(CheckpointError, match="no index needs"):
        whole_state(path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("where", ["an object in place of a tensor", "a file elsewhere"])
def test_an_index_from_a_stranger_sends_nobody_elsewhere(pair, tmp_path, where):
    """DCP would unpickle an object whole, and open any file that the index names."""
    path = tmp_path / "step_00000002"
    shutil.copytree(pair / "checkpoints/step_00000002", path)
    found = pickle.loads((path / ".metadata").read_bytes())
    name = next(n for n, like in found.state_dict_metadata.items() if len(like.chunks) == 1)
    (index,) = (i for i in found.storage_data if i.fqn == name)
    torch.save(Runs(tmp_path / "ran"), path / "more.distcp")
    length = (path / "more.distcp").stat().st_size
    if where == "a file elsewhere":
        torch.save(torch.zeros(3), tmp_path / "elsewhere.distcp")
        found.storage_data[index] = _StorageInfo("../elsewhere.distcp", 0, length)
    else:
        like = found.state_dict_metadata[name]
        found.state_dict_metadata[name] = other = BytesStorageMetadata()
        other.size, other.properties = like.size, like.properties
        del found.storage_data[index]
        found.storage_data[MetadataIndex(name)] = _StorageInfo("more.distcp", 0, length)
    (path / ".metadata").write_bytes(pickle.dumps(found))
    record = manifest.read(path)
    record["files"] |= manifest.describe(path, [".metadata", "more.distcp"])
    (path / "manifest.json").write_text(json.dumps(record))
    with pytest.raises(CheckpointError, match="no index needs"):
        whole_state(path)
    assert not (tmp_path / "ran").exists()


def refused(config, path, tokens, vocab_size):
    """What a load raises, and whether it left everything as it was."""
    trainer = FSDPTrainer(config, tokens, vocab_size=vocab_size)
    before, loader = state_of(trainer), trainer.loader.state_dict()
    try:
        trainer.load_checkpoint(path)
    except CheckpointError as error:
        text = f"CheckpointError: {error}"
    except ValueError as error:
        text = f"ValueError: {error}"
    untouched = trainer.step == 0 and trainer.loader.state_dict() == loader
    return text, untouched and same(
        before, {k: v for k, v in state_of(trainer).items() if k in before}
    )


def test_another_model_and_another_text_are_refused_and_nothing_changes(pair, tmp_path):
    path = pair / "checkpoints/step_00000002"
    config = settings(tmp_path, batch_size=6)
    cases = [
        ((config, path, TOKENS % 50, 50), "of another model: 2 of 39"),
        ((config, path, TOKENS[::-1].copy(), V), "sample_crc32"),
        ((config, tmp_path / "absent", TOKENS, V), "CheckpointError: no checkpoint at"),
    ]
    for found in values(on_ranks(2, lambda: [refused(*given) for given, _ in cases])):
        for (text, untouched), (_, words) in zip(found, cases, strict=True):
            assert words in text and untouched, text


def full_disk(config) -> str:
    """The limit on the size of a file stands for a full disk, on the last rank alone."""
    trainer = make(config)
    steps(trainer, 1)
    trainer.save_checkpoint()
    trainer.checkpoints.wait()
    steps(trainer, 1)
    if trainer.world.rank == trainer.world.world_size - 1:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(
            resource.RLIMIT_FSIZE, (100_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1])
        )
    try:
        trainer.save_checkpoint()
        trainer.checkpoints.wait()
    except OSError as error:
        return str(error)
    return "saved"


@pytest.mark.parametrize("ranks, async_save", [(1, False), (2, True)])
def test_a_full_disk_is_told_to_every_rank_and_leaves_the_earlier_one(tmp_path, async_save, ranks):
    config = settings(tmp_path, async_save=async_save)
    for text in values(on_ranks(ranks, full_disk, config)):
        assert text == "[Errno 27] File too large"
    folder = tmp_path / "checkpoints"
    assert [p.name for p in folder.iterdir()] == ["step_00000001"], "the space is given back"
    assert whole_state(folder / "step_00000001")["step"] == 1


def dies(config, delay: float, victim: int, total: int) -> None:
    """Resume, then train and save at every step; one rank is killed some time after the second."""
    Path(config.out).mkdir(exist_ok=True)
    trainer = make(config)
    began = trainer.load_checkpoint()
    while trainer.step < total:
        row = steps(trainer, 1)[0]
        if trainer.world.is_first:  # before the save: a step that is published has been told
            with (Path(config.out) / "losses").open("a") as stream:
                stream.write(f"{trainer.step} {row['loss']!r}\n")
        trainer.save_checkpoint()
        if trainer.step == began + 2 and trainer.world.rank == victim:
            threading.Timer(delay, os.kill, (os.getpid(), signal.SIGKILL)).start()
    trainer.checkpoints.wait()


@campaign
@pytest.mark.parametrize("async_save", [False, True][-times(1, 2) :])
def test_kill_nine_of_any_rank_at_any_moment(tmp_path, async_save):
    """No bad checkpoint is ever published, and the losses are those of a run nobody killed."""
    total, draw = times(3, 60), random.Random(async_save)
    config = settings(tmp_path / "cut", async_save=async_save)
    kills = 0
    while kills < times(1, 20):
        with contextlib.suppress(local_ranks.RankFailed, local_ranks.RanksStuck):
            on_ranks(2, dies, config, 0.02 + draw.random() * 0.3, draw.randrange(2), 10_000)
        kills += 1
        for path in candidates(tmp_path / "cut/checkpoints"):
            whole_state(path)  # raises for a bad one
    assert candidates(tmp_path / "cut/checkpoints"), "one is published when the second is begun"
    last = whole_state(candidates(tmp_path / "cut/checkpoints")[0])["step"]
    total += last
    on_ranks(2, dies, config, 1e6, -1, total)
    whole = settings(tmp_path / "whole", async_save=async_save, save_every=0)
    expected = on_ranks(2, lambda c: steps(make(c), total), whole)[0].value
    told = [line.split() for line in (tmp_path / "cut/losses").read_text().splitlines()]
    assert {int(step) for step, _ in told} == set(range(1, total + 1))
    assert all(float(loss) == expected[int(step) - 1]["loss"] for step, loss in told)
