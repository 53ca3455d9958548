"""What figures show against torch and the library: values, presets, and a part of each stored table.

The figures' mathematics stands in their JavaScript alone; `compute` asks Node for it.
"""

import itertools
import json
import math
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from benchmarks.figures import init, loss_shift, number_line, read_constant, resume
from course_lib.data.batches import get_batch
from course_lib.fast.flash import add_tile
from course_lib.fast.recompute import selective_contexts
from course_lib.gpt import GPT, MLP, GPTConfig, apply_rotary_pos_emb, rope_tables
from course_lib.ladder.gains import amdahl, rung_gains
from course_lib.measure.activations import activation_bytes
from course_lib.measure.formats import FORMATS, round_to_format
from course_lib.measure.held import Held
from course_lib.measure.roofline import Ceilings, elementwise, matmul
from course_lib.parallel.zero import zero_memory, zero_traffic
from course_lib.ranks import local_ranks
from course_lib.ranks.collectives import collective_cost, ring_all_gather, ring_reduce_scatter
from course_lib.ranks.hang import find_the_hang
from course_lib.training.ddp_trainer import DistributedTrainer
from course_lib.training.train_config import TrainConfig
from tests.figure_states import compute

pytestmark = pytest.mark.usefixtures("one_thread")


def close(want, rel=1e-9, abs=1e-9):
    """What numbers of a figure are compared with, NaN with NaN."""
    values = want.tolist() if isinstance(want, torch.Tensor) else want
    return pytest.approx(values, rel=rel, abs=abs, nan_ok=True)


def as_double(values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def list_states(**knobs) -> list[dict]:
    """All states that take one value of each knob."""
    return [dict(zip(knobs, values, strict=True)) for values in itertools.product(*knobs.values())]


def learning_rate(step: int, **config) -> float:
    return DistributedTrainer.get_lr(SimpleNamespace(config=TrainConfig(**config)), step)


def test_accumulation_makes_the_gradients_of_autograd():
    means = torch.tensor([[3.0, 0.6], [0.6, 2.4]])

    def gradient(loss) -> list[float]:
        weights = torch.zeros(2, requires_grad=True)
        loss([(means[0] @ weights).expand(6), (means[1] @ weights).expand(2)]).backward()
        return close(weights.grad, 1e-6)

    codes = {
        "tokens": lambda parts: torch.cat(parts).mean(),
        "means": lambda parts: (parts[0].mean() + parts[1].mean()) / 2,
        "sum": lambda parts: parts[0].mean() + parts[1].mean(),
        "twice": lambda parts: torch.cat(parts).mean() / 2,
        "last": lambda parts: parts[1].sum() / 8,
    }
    for code, result in zip(
        codes, compute("accumulation", *({"a": 6, "b": 2, "code": c} for c in codes)), strict=True
    ):
        assert result["made"] == gradient(codes[code]), code
        assert result["big"] == gradient(codes["tokens"])
    (empty,) = compute("accumulation", "empty")
    assert empty["made"] == close([math.nan] * 2) and math.isnan(empty["off"])


def test_activations_are_what_the_formula_says():
    states = [
        {"T": t, "B": b, "V": v} for t, b in ((64, 1), (512, 4), (4096, 64)) for v in (8192, 32000)
    ]
    for state, result in zip(states, compute("activations", *states), strict=True):
        config = GPTConfig.preset("small", vocab_size=state["V"], max_seq_len=4096)
        kept = [[1e9 * x for x in bar] for bar in result["kept"]]
        for fast, (norms, attention, square, mlp, inputs, loss) in zip(
            (False, True), kept, strict=False
        ):
            parts = activation_bytes(replace(config, fast_attention=fast), state["B"], state["T"])
            assert [norms, attention + square, mlp, loss] == close(
                list(parts.values())
            ) and not inputs
        assert kept[3][4] == close(4 * state["T"] * state["B"] * config.d_model * config.num_layers)


def test_activations_with_the_products_kept_are_what_a_block_holds():
    config = GPTConfig.preset("small", vocab_size=8192, fast_attention=False, num_layers=1)
    block, x = GPT(config).blocks[0], torch.randn(2, 64, 384, requires_grad=True) + 0
    args = block.attention_norm.weight.new_zeros(2, 64, 64).unbind()
    with Held() as held:
        out = checkpoint(block, x, *args, use_reentrant=False, context_fn=selective_contexts)
        alive = held.bytes() - out.nbytes  # the input was there before
    (result,) = compute("activations", {"T": 64, "B": 2})
    _, attention, square, mlp, _, _ = (1e9 * v / 6 for v in result["kept"][2])
    assert alive == pytest.approx(attention + square + mlp)


@pytest.mark.parametrize("state", list_states(g=[1e-8, 0.01, 1000], beta2=[0.95, 0.999]), ids=str)
def test_adamw_steps_are_those_of_torch(state):
    weight = nn.Parameter(torch.zeros(1, dtype=torch.float64))
    adamw = torch.optim.AdamW([weight], lr=1, betas=(0.9, state["beta2"]), weight_decay=0)
    want, places = [], [0.0]
    for _ in range(100):
        weight.grad = as_double([state["g"]])
        adamw.step()
        places.append(weight.item())
        want.append(places[-2] - places[-1])
    on, off = compute("adamw", state, {**state, "corrected": False})
    assert on["on"] == off["on"] == close(want, 1e-6) and on["first"] == close(want[0], 1e-6)
    m = v = 0.0
    for step in off["off"]:
        m, v = (
            0.9 * m + 0.1 * state["g"],
            state["beta2"] * v + (1 - state["beta2"]) * state["g"] ** 2,
        )
        assert step == close(m / (math.sqrt(v) + 1e-8), 1e-6)
    assert off["longest"] == max(off["off"]) and on["longest"] == max(on["on"])


def test_attention_weights_are_those_of_torch():
    rows, columns = torch.meshgrid(torch.arange(6), torch.arange(6), indexing="ij")
    readable = {
        "correct": columns <= rows,
        "leak-1": columns <= rows + 1,
        "transposed": columns >= rows,
        "nan-row": columns < rows,
        "no-mask": columns >= 0,
    }
    queries = compute("attention", *({"query": q, "mask": "no-mask"} for q in range(6)))
    z = as_double([found["scores"] for found in queries]) / 8  # K is 64
    values = as_double([0.5, 2, -1, 1, -1.5, 3])
    for mask, may_read in readable.items():
        (result,) = compute("attention", {"mask": mask, "query": 3})
        want = z.masked_fill(~may_read, -math.inf).softmax(-1)
        assert [x for row in result["weights"] for x in row] == close(want.flatten())
        assert result["output"] == close((want @ values)[3].item())
    (late,) = compute("attention", "zero-after")
    assert (
        late["weights"][2] == close(z.softmax(-1)[2] * (columns <= rows)[2]) and late["sum"] < 0.9
    )
    (filled,) = compute("attention", {"mask": "finite-fill", "query": 2})
    assert filled["weights"][2] == close(z.tril().softmax(-1)[2])
    (large,) = compute("attention", {"scaled": False, "k": 256})
    assert large["weights"][5] == close((16 * z[5]).softmax(-1))
    assert all(x == 0 for x in queries[0]["moved"][6:])


def test_attention_masks_leak_what_their_names_say():
    moved = {
        mask: compute("attention", {"mask": mask})[0]["moved"][:5] for mask in ("correct", "leak-1")
    }
    assert moved["correct"] == [0] * 5 and [m > 0 for m in moved["leak-1"]] == [False] * 4 + [True]


def test_batches_are_those_of_the_library():
    text = "to_be_or_not_to_be"
    tokens = np.array([ord(letter) for letter in text], dtype=np.uint16)
    states = list_states(T=[2, 4, 5], start=[0, 9, 13])
    for state, result in zip(states, compute("batches", *states), strict=True):
        T = state["T"]
        idx, targets = get_batch(tokens, np.array(result["starts"]), T)
        assert [[ord(c) for c in row] for row in result["idx"]] == idx.tolist()
        assert [[ord(c) for c in row] for row in result["targets"]] == targets.tolist()
        assert result["num_wrong"] == 0 and result["windows"] == len(text) - T
    same, rolled = compute("batches", "no-shift", "rolled")
    assert same["targets"] == same["idx"]
    want = [torch.tensor([ord(c) for c in row]).roll(-1).tolist() for row in rolled["idx"]]
    assert [[ord(c) for c in row] for row in rolled["targets"]] == want


def test_desync_places_are_those_that_find_the_hang_names():
    faults = ["none", "absent", "skip", "extra", "size", "order"]
    states = list_states(fault=faults, rank=range(4), place=range(1, 5))
    unseen = 0
    for state, result in zip(states, compute("desync", *states), strict=True):
        found = find_the_hang([[tuple(call) for call in calls] for calls in result["calls"]])
        assert found == ((result["at"], result["odd"]) if result["at"] >= 0 else None), state
        unseen += found is None and state["fault"] != "none"
    assert unseen == 4, "two equal calls swapped, on each rank"


def test_desync_ranks_issue_what_their_faults_say():
    (none,) = compute("desync", "none")
    right = [call[:2] for call in none["calls"][0]]
    assert none["calls"] == [[[*call, True] for call in right]] * 4
    faulty = {  # at place 3, the first call that is like no other
        "absent": right[:3],
        "skip": right[:3] + right[4:],
        "extra": [*right[:3], ["AG", 64], *right[3:]],
        "size": [*right[:3], [right[3][0], right[3][1] // 2], *right[4:]],
        "order": [*right[:3], right[4], right[3], *right[5:]],
    }
    for fault, result in zip(
        faulty, compute("desync", *({"fault": fault} for fault in faulty)), strict=True
    ):
        issued = [[call[:2] for call in calls] for calls in result["calls"]]
        assert issued == [(faulty[fault] if rank == 2 else right)[:4] for rank in range(4)], fault
        assert (result["at"], result["waits"]) == (
            3,
            [0, 1, 3] if fault == "absent" else [0, 1, 2, 3],
        )


def test_flash_remembers_what_add_tile_does():
    states = list_states(step=[1, 5, 10, 16], tile=[2, 3, 4, 8], causal=[True, False])
    for result in compute("flash", *states):
        total = torch.zeros(1).double()
        found = total - torch.inf, total, total.view(1, 1)
        for row in result["trace"]:
            scores = as_double([row["scores"]])
            found = add_tile(*found, scores, torch.zeros(scores.shape[1], 1).double())
            assert [row["peak"], row["total"]] == close([x.item() for x in found[:2]])
        assert result["lse"] == close(result["right"])
    never, lucky, rises = compute("flash", "no-rescale", "lucky", "rises")
    assert never["lse"] - never["right"] > 0.1 and lucky["lse"] == close(lucky["right"])
    assert [row["peak"] for row in rises["trace"][-2:]] == [3, 5]
    assert round(rises["trace"][-1]["keep"], 3) == 0.135


def test_fusion_counts_the_bytes_of_elementwise_operations():
    states = list_states(ops=[1, 5, 8], shape=["16x256", "16384x4096"])
    for state, apart in zip(states, compute("fusion", *states), strict=True):
        rows, columns = map(int, state["shape"].split("x"))
        one = elementwise(rows * columns, number_bytes=4).num_bytes
        assert (apart["bytes"], apart["least"]) == (state["ops"] * one, one)
        (whole,) = compute("fusion", {**state, "fused": True})
        assert (whole["bytes"], whole["kernels"]) == (one, 1)
        assert whole["end"] == close(6 + 1e6 * one / 2e12), "a launch, then the bytes at 2 TB/s"
    small, large = compute("fusion", "small", "large")
    assert small["end"] == close(5 * 6 + small["kernel"]), "launches set the pace"
    assert large["end"] == close(6 + 5 * large["kernel"]), "memory does"


@pytest.mark.parametrize(
    ("depth", "std", "scaled"), [(6, 0.02, True), (6, 1, False), (48, 0.02, False)]
)
def test_init_table_is_what_the_model_gives(depth, std, scaled):
    (shown,) = compute("init", {"depth": depth, "std": std, "scaled": scaled})
    stored = shown["on" if scaled else "off"]
    (row,) = init.measure_models(depth, [(std, scaled)])
    # three stored digits are within 0.5 percent; the rest is room for another machine's sums
    assert row[:-1] == pytest.approx(stored["rms"], rel=0.02)
    assert row[-1] == pytest.approx(stored["loss"], rel=0.01)
    assert shown["growth"] == close(stored["rms"][-1] / stored["rms"][0])


def test_init_shows_what_its_words_say():
    scaled, plain = compute("init", {"scaled": True}, {"scaled": False})
    assert scaled["growth"] < 1.5 and plain["growth"] > 10
    assert scaled["ln_v"] == close(math.log(8192)) and abs(scaled["loss"] - scaled["ln_v"]) < 0.1


def test_ladder_gains_are_those_of_the_library():
    found = compute("ladder", *({"data": data} for data in (0, 30, 90)))
    for data, result in zip((0, 30, 90), found, strict=True):
        rows = {row["name"]: row for row in result["rows"]}
        alone = {name: 100 / row["alone"] for name, row in rows.items()}
        without = {
            name: compute("ladder", {"data": data, "taken": name})[0]["top"] for name in rows
        }
        climbed = {name: row["ms"] for name, row in rows.items()}
        gains = rung_gains(100, alone, without, climbed)
        for name, row in rows.items():
            want = [gains[kind][name] for kind in ("alone", "in_place", "last")]
            assert [row[kind] for kind in ("alone", "place", "last")] == close(want)
        assert [result["total"], result["product"]] == close([gains["total"], gains["product"]])
    parts = {"tokens": (0.3, 50), "TF32": (0.56, 3), "bf16": (0.56, 6), "compile": (0.056, 4)}
    parts |= {"attention": (0.056, 5), "update": (0.028, 4)}
    want = {name: close(amdahl(*part)) for name, part in parts.items()}
    assert {row["name"]: row["alone"] for row in found[1]["rows"]} == want
    # with all six: data / 50, products / 6 (bf16 for TF32), scores / 5, small and update / 4
    assert found[1]["top"] == close(30 / 50 + 70 * (0.8 / 6 + 0.08 / 5 + 0.12 / 4))


@pytest.mark.parametrize("by", loss_shift.SHIFTS)
def test_shift_table_is_what_training_gives(by):
    (result,) = compute("loss-shift", {"shift": by, "at": 0})
    losses, _ = loss_shift.train_with_shift(by, steps=20)
    assert losses == pytest.approx(result["curve"][:3], abs=0.05)
    # 16 windows of 14 words: the sampled words' own entropy is off by a few hundredths
    assert result["floor"] - 0.03 < result["final"] < result["floor"] + 0.15
    words = result["writes"].split()
    follows = [b in loss_shift.FOLLOWS[a] for a, b in zip(words, words[1:], strict=False)]
    assert all(follows) == (by == 1) and words[0] == "a"


def test_shift_chances_are_counted_paths():
    follows = loss_shift.FOLLOWS
    one, two = compute("loss-shift", "right", "twice")
    assert one["chances"] == close([1 / len(follows[word]) for word in one["inputs"]])
    for word, target, chance in zip(two["inputs"], two["targets"], two["chances"], strict=True):
        after = Counter(b for a in follows[word] for b in follows[a])
        assert chance == close(after[target] / after.total())
    assert one["floor"] == close(-sum(map(math.log, one["chances"])) / 7)


def test_number_line_counts_are_those_of_the_model():
    (result,) = compute("number-line", {"format": "bf16", "tokens": "8"})
    counts = number_line.count_gradients()
    assert (result["first"], result["normal"]) == (number_line.LOWEST, 100)
    stored = json.loads(read_constant("number-line", "COUNTS"))
    assert sum(counts) == sum(stored)
    # a gradient at a power of two may fall to either side by another machine's sums
    assert counts == pytest.approx(stored, rel=0.01, abs=3)


@pytest.mark.parametrize("name", ["bf16", "fp16", "e5m2"])
def test_number_line_rounds_as_the_library_does(name):
    states = [
        {"format": name, "tokens": t, "scale": s} for t, s in (("8", 0), ("24", 0), ("8", 40))
    ]
    counts = as_double(json.loads(read_constant("number-line", "COUNTS")))
    for result in compute("number-line", *states):
        middles = 1.5 * 2.0 ** torch.arange(result["first"], result["first"] + len(counts)).double()
        kept, share = round_to_format(middles, name), 100 * counts / counts.sum()
        assert result["lost"] == close(share[kept == 0].sum().item())
        assert result["over"] == close(share[~kept.isfinite()].sum().item())
        normal = (kept >= FORMATS[name].smallest_normal) & kept.isfinite()
        assert result["normal"] == close(share[normal].sum().item())
        assert result["largest"] == FORMATS[name].largest


def test_number_line_shows_what_its_words_say():
    default, scaled, overflow, bf16 = compute(
        "number-line", "default", "scaled", "overflow", "bf16"
    )
    assert default["lost"] > 80 and scaled["lost"] == scaled["over"] == 0
    assert overflow["over"] > 0 and bf16["normal"] == 100


def test_pages_are_those_of_the_bytes():
    states = list_states(T=[16, 256, 4096], batch=[1, 17], order=["in-order"])
    for state, result in zip(states, compute("pages", *states), strict=True):
        T, seen = state["T"], set()
        for batch in range(state["batch"]):
            now = set()
            for start in (j * T for j in range(8 * batch, 8 * batch + 8)):
                start %= 240 * 2048 - T
                now.update(byte // 4096 for byte in range(2 * start, 2 * (start + T + 1)))
            fresh, seen = now - seen, seen | now
        assert (result["now"], result["cached"]) == (sorted(now), sorted(seen))
        assert (result["touched"], result["read"]) == (4096 * len(now), 4096 * len(fresh))
        assert result["used"] == 2 * 8 * (T + 1) and result["share"] == len(seen) / 240
    first, warm = compute("pages", "default", "warm")
    assert 8 <= len(first["now"]) <= 16 and first["read"] == first["touched"]
    assert warm["curve"] == sorted(warm["curve"]) and warm["read"] < warm["touched"]


@pytest.mark.parametrize("momentum", [False, True])
@pytest.mark.parametrize("angle", [0, 30, 45])
def test_paths_are_those_of_torch(angle, momentum):
    rates = (0.002, 0.05, 0.15, 1)
    states = list_states(rate=rates, angle=[angle], momentum=[momentum])
    turn = math.radians(angle)
    along = as_double([math.cos(turn), math.sin(turn)])
    across = as_double([-math.sin(turn), math.cos(turn)])
    for state, result in zip(states, compute("paths", *states), strict=True):
        ways = {
            "sgd": (torch.optim.SGD, {"momentum": 0.9 * momentum}),
            "adamw": (torch.optim.AdamW, {"betas": (0.9, 0.95), "weight_decay": 0}),
        }
        for name, (cls, options) in ways.items():
            weights = nn.Parameter(0.3 * across - along)
            optimizer = cls([weights], state["rate"], **options)
            path, losses = [weights.tolist()], []
            for _ in range(40):
                flat, steep = weights @ along, weights @ across
                optimizer.zero_grad()
                (0.05 * flat**2 + 5 * steep**2).backward()
                optimizer.step()
                path.append(weights.tolist())
                losses.append((0.05 * (weights @ along) ** 2 + 5 * (weights @ across) ** 2).item())
            shown, last = result[name], sum(losses[-10:]) / 10
            size = max(abs(x) for place in path for x in place)  # of one that is thrown out, huge
            want = [x for place in path for x in place]
            assert [x for place in shown["path"] for x in place] == close(want, 1e-6, 1e-9 * size)
            assert shown["loss"] == close(last, 1e-6)
            assert shown["losses"][result["rates"].index(state["rate"])] == shown["loss"]
            assert shown["covered"] == close(
                100 * (1 + (weights @ along).item()), 1e-6, 1e-7 * size
            )
            assert shown["across"] == close((weights @ across).item(), 1e-6, 1e-9 * size)


def test_paths_show_what_their_words_say():
    start, best, thrown = compute("paths", "default", "sgd-best", "thrown")
    assert round(start["sgd"]["covered"]) == 18 and round(thrown["sgd"]["covered"]) == 70
    across = [y for _, y in thrown["sgd"]["path"]]
    assert [b / a for a, b in itertools.pairwise(across)] == close([-2] * 40)
    along = [x for x, _ in thrown["sgd"]["path"]]
    assert [b / a for a, b in itertools.pairwise(along)] == close([0.97] * 40)
    assert best["sgd"]["best"] == 0.15 and best["sgd"]["loss"] == min(best["sgd"]["losses"])
    turned = compute("paths", *({"angle": angle} for angle in (0, 15, 30, 45)))
    assert all(r["sgd"]["losses"][:15] == close(start["sgd"]["losses"][:15]) for r in turned)
    (heavy,) = compute("paths", {"momentum": True})
    assert round(best["sgd"]["covered"]) == 45 and round(heavy["sgd"]["covered"]) == 94
    for losses, low in (
        (heavy["sgd"]["losses"], (0.05, 0.15)),
        (start["adamw"]["losses"], (0.03, 0.7)),
    ):
        below = [rate for rate, loss in zip(start["rates"], losses, strict=True) if loss < 0.01]
        assert (below[0], below[-1]) == low
    assert min(start["adamw"]["losses"]) < min(heavy["sgd"]["losses"])
    assert min(heavy["sgd"]["losses"]) < min(turned[3]["adamw"]["losses"])
    lowest = [min(r["adamw"]["losses"]) for r in turned]
    assert lowest == sorted(lowest) and lowest[3] > 1.5 * lowest[0]


def test_reshard_reads_the_rows_of_torch_chunks():
    tensors, states = ((10, 16), (6, 16), (3, 4)), list_states(R=range(1, 5), R2=range(1, 5))

    def rows_of(n: int, ranks: int) -> list[set[int]]:
        chunks = [set(chunk.tolist()) for chunk in torch.arange(n).chunk(ranks)]
        return chunks + [set()] * (ranks - len(chunks))

    for state, result in zip(states, compute("reshard", *states), strict=True):
        want = torch.zeros(state["R2"], state["R"], dtype=torch.int)
        for n, width in tensors:
            for new, needs in enumerate(rows_of(n, state["R2"])):
                for old, has in enumerate(rows_of(n, state["R"])):
                    want[new, old] += width * len(needs & has)
        assert result["read"] == want.tolist() and result["sizes"] == want.sum(0).tolist()
        assert sum(result["missing"]) == result["moved"] == 0
        gathered, rank0 = compute(
            "reshard", {**state, "saved": "gathered"}, {**state, "saved": "rank0"}
        )
        own = sum(width * len(rows_of(n, state["R"])[0]) for n, width in tensors)
        assert gathered["moved"] == sum(rank0["missing"]) == result["total"] - own


def test_resume_table_is_what_the_trainer_gives():
    whole = resume.train_run(steps=16)
    stored = compute("resume", *({"forgotten": f, "at": 8} for f in ("nothing", *resume.MEASURED)))
    assert whole == pytest.approx(stored[0]["whole"][:8], abs=0.02)
    assert resume.train_run(8, steps=16) == whole[4:], "to the bit, when nothing is forgotten"
    for part, result in zip(resume.MEASURED, stored[1:], strict=True):
        losses = resume.train_run(8, part, steps=16)
        assert losses == pytest.approx(result["resumed"][:4], abs=0.02), part


def test_resume_shows_what_its_words_say():
    names = ("nothing", "model", "optimizer", "step", "loader", "random")
    for at in resume.RESUMES:
        results = compute("resume", *({"forgotten": name, "at": at} for name in names))
        first = {name: result["first"] for name, result in zip(names, results, strict=True)}
        assert first["optimizer"] == first["step"] == first["nothing"] == first["random"] == 0
        assert first["model"] > 0.3 and first["loader"] != 0
        times = dict(max_steps=resume.STEPS, warmup_steps=resume.WARMUP)
        rates = dict(lr=resume.LR, min_lr=resume.MIN_LR)
        want = [learning_rate(step, **times, **rates) for step in (at, 0)]
        assert results[names.index("step")]["rates"] == close(want)


@pytest.mark.parametrize("R", [2, 4, 5])
def test_ring_ends_where_the_library_does(R):
    def work():
        rank = torch.distributed.get_rank()
        shard = ring_reduce_scatter(torch.full((R,), 2.0**rank))
        return shard.tolist(), ring_all_gather(shard).tolist()

    done = [rank.value for rank in local_ranks.run(work, [()] * R)]
    scattered, whole = compute("ring", {"R": R, "step": R - 1}, {"R": R, "step": 2 * R - 2})
    for rank, (shard, gathered) in enumerate(done):
        assert scattered["at"][rank] == rank and scattered["cells"][rank][rank] == [rank, *shard]
        assert whole["cells"][rank] == [[i, total] for i, total in enumerate(gathered)]
    assert whole["sent"] == close(collective_cost("all_reduce", 1, R)["bytes"])
    assert whole["steps"] == collective_cost("all_reduce", 1, R)["messages"]


def test_ring_presets_show_what_their_labels_say():
    chunk, steps, over, order = compute("ring", "chunk", "steps", "overwrites", "arrival")
    complete = [row[at] for row, at in zip(chunk["cells"], chunk["at"], strict=True)]
    assert complete == [[1, 15], [2, 15], [3, 15], [0, 15]], "one rank before its start"
    assert steps["steps"] == 5 and all(at != rank for rank, at in enumerate(steps["at"]))
    sums = [row[at][1] for row, at in zip(over["cells"], over["at"], strict=True)]
    assert all(total in (1, 2, 4, 8) for total in sums), "one part in each"
    assert {total for row in order["cells"] for _, total in row} == {15}
    assert len({tuple(c for c, _ in row) for row in order["cells"]}) == 4


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"c": 2, "k": 100},
        {"k": 0.001, "eps": 0.01},
        {"x": [4, 4, 4, 4], "eps": 0},
        {"x": [0, 0, 0, 0]},
        {"x": [0, 0, 0, 0], "eps": 0},
        {"x": [1, -2, 3], "c": 1.5},
    ],
    ids=str,
)
def test_rmsnorm_outputs_are_those_of_torch(state):
    (result,) = compute("rmsnorm", state)
    state = {"x": [3, -1, 2, 0.5], "k": 1, "c": 0, "eps": 1e-5, **state}
    x = as_double(state["x"])
    y = state["k"] * x + state["c"]
    rms, layer = (
        [norm(v, (len(x),), eps=state["eps"]) for v in (y, x)]
        for norm in (F.rms_norm, F.layer_norm)
    )
    assert result["input"] == close(y) and result["rms"] == close(y.square().mean().sqrt().item())
    assert result["rmsnorm"] == close(rms[0]) and result["base_rmsnorm"] == close(rms[1])
    assert result["layernorm"] == close(layer[0]) and result["base_layernorm"] == close(layer[1])
    assert result["moved_rmsnorm"] == close((rms[0] - rms[1]).abs().max().item())
    assert result["moved_layernorm"] == close((layer[0] - layer[1]).abs().max().item())


def test_roofline_is_that_of_the_library():
    products = ["1x4096x4096", "4096x4096x4096", "2048x64x2048"]
    states = list_states(top=[1, 300, 2000], width=[0.1, 4], product=products)
    for state, result in zip(states, compute("roofline", *states), strict=True):
        cost = matmul(*map(int, state["product"].split("x")))
        machine = Ceilings(1e12 * state["top"], 1e12 * state["width"])
        assert [result["flops"], result["bytes"]] == [cost.flops, cost.num_bytes]
        assert [result["intensity"], result["ridge"]] == close([cost.intensity, machine.ridge])
        assert result["reached"] == result["shown"] == close(machine.attainable(cost) / 1e12)
        assert result["micros"] == close(1e6 * machine.seconds(cost))
    (higher,) = compute("roofline", "higher")
    assert higher["shown"] > higher["reached"]


@pytest.mark.parametrize("n", [0, 3, 60])
@pytest.mark.parametrize("gap", [0, 2, 16])
def test_rope_turns_as_the_library_does(n, gap):
    q, k = torch.tensor([0.8, 0.6, 0.6, 0.8]), torch.tensor([1, 0.8, 0, -0.6])
    cos, sin = rope_tables(80, 4, theta=100.0)
    turned_q, _ = apply_rotary_pos_emb(q, k, cos[n + gap], sin[n + gap])
    _, turned_k = apply_rotary_pos_emb(q, k, cos[n], sin[n])
    right, only_q, mixed = compute(
        "rope", *({"n": n, "gap": gap, "code": code} for code in ("right", "q-only", "mixed"))
    )
    assert right["q"] == close(turned_q, 1e-4, 1e-5) and right["k"] == close(turned_k, 1e-4, 1e-5)
    assert right["score"] == close((turned_q @ turned_k).item(), 1e-4, 1e-5) and right["moved"] == 0
    assert only_q["score"] == close((turned_q @ k).item(), 1e-4, 1e-5)
    if n:
        assert mixed["moved"] > 1e-5 and only_q["moved"] > 1e-5


def test_schedule_rates_are_those_of_the_trainer():
    states = list_states(warmup=[0, 10, 25], beyond=[0, 50])
    for state, result in zip(states, compute("schedule", *states), strict=True):
        config = dict(lr=1.0, min_lr=0.1, warmup_steps=state["warmup"], max_steps=50)
        want = [learning_rate(step, **config) for step in range(50 + state["beyond"])]
        assert result["rates"] == close(want) and result["off"] == 0


def test_schedule_presets_show_what_their_labels_say():
    names = ("default", "climbs", "micro-steps", "zero-first", "to-zero", "restart")
    right, climbs, micro, zero_first, to_zero, restart = compute("schedule", *names)
    assert max(climbs["rates"][50:]) == close(1) and all(r >= 0.1 for r in climbs["rates"])
    assert micro["rates"][:10] == close(right["rates"][:40:4])
    assert zero_first["rates"][0] == 0 and 0 < min(to_zero["rates"][40:50]) < 0.01
    assert restart["rates"][30:] == close(right["rates"][:30]) and restart["after"] == close(0.1)


def test_swiglu_units_are_those_of_torch():
    acts = {
        "silu": F.silu,
        "gelu": lambda x: F.gelu(x, approximate="tanh"),
        "relu": F.relu,
        "sigmoid": torch.sigmoid,
        "none": lambda x: x,
    }
    states = list_states(act=list(acts), wg=[-4, 0.5], wu=[2], x=[-4, 1.5])
    for state, result in zip(states, compute("swiglu", *states), strict=True):
        gate = acts[state["act"]](as_double(state["wg"] * state["x"])).item()
        up = state["wu"] * state["x"]
        assert [result["gate"], result["up"], result["product"]] == close([gate, up, gate * up])
    (matched,) = compute("swiglu", "matched")
    gated = sum(p.numel() for p in MLP(384, 1024).parameters())
    plain = nn.Sequential(nn.Linear(384, 1536, bias=False), nn.Linear(1536, 384, bias=False))
    assert matched["three"] == gated == matched["two"] == sum(p.numel() for p in plain.parameters())
    assert matched["ratio"] == 1


@pytest.mark.parametrize("mode", ["ddp", "free", "keep"])
def test_timeline_answers_its_question_for_every_way_to_run(mode):
    sizes = (1, 2, 4, 8)
    for overlap, best in ((True, 2), (False, 8)):  # with nothing beside it, fewer starts win
        states = ({"mode": mode, "size": size, "overlap": overlap} for size in sizes)
        ends = [result["end"] for result in compute("timeline", *states)]
        assert sizes[ends.index(min(ends))] == best


def test_timeline_keeps_lanes_and_ranks_in_order():
    ways = ((2, True, 1), (4, True, 1), (4, False, 1.5), (8, False, 1))
    states = [
        {"mode": mode, "size": size, "overlap": overlap, "slow": slow}
        for mode in ("ddp", "front", "free", "keep")
        for size, overlap, slow in ways
    ]
    for result in compute("timeline", *states):
        for rank, lane in itertools.product((0, 1), (False, True)):
            ends = 0
            for box in result["boxes"]:
                if bool(box["mb"]) == lane:
                    assert box["start"][rank] >= ends
                    ends = box["end"][rank]
        assert all(box["start"][0] == box["start"][1] for box in result["boxes"] if box["mb"])


def test_timeline_counts_what_sharding_sends_and_holds():
    layers, mb = 8, 8
    whole = layers * mb
    ddp, keep, free = compute("timeline", {"size": 2}, {"mode": "keep"}, {"mode": "free"})
    assert ddp["sent"] == keep["sent"] == zero_traffic(whole, 4, 1, param_bytes=1, grad_bytes=1)
    assert free["sent"] == zero_traffic(whole, 4, 3, param_bytes=1, grad_bytes=1)
    beside, waits, kept = compute("timeline", "fsdp", "fsdp-waits", "fsdp-kept")
    assert beside["peak"] == whole / 4 + 2 * mb and waits["peak"] == whole / 4 + mb
    assert kept["peak"] == whole / 4 + whole


def test_zero_bytes_are_those_of_the_library():
    states = list_states(billions=[0.1, 7, 400], ranks=[1, 3, 64], stage=range(4))
    for state, result in zip(states, compute("zero", *states), strict=True):
        n, ranks = round(state["billions"] * 1e9), state["ranks"]
        held = [list(zero_memory(n, ranks, stage).values()) for stage in range(4)]
        assert [[1e9 * x for x in row] for row in result["held"]] == [close(row) for row in held]
        sent = [zero_traffic(n, ranks, stage) for stage in range(4)]
        assert [1e9 * x for x in result["sent"]] == close(sent)
        assert result["factor"] == close(sum(held[0]) / sum(held[state["stage"]]))
    (halves,) = compute("zero", "halves")
    assert halves["claimed"] == close(halves["sent"][2] / 2)
