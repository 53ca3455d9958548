"""Tables stored in figures are what the model gives: a part of each is measured again."""

from dataclasses import replace

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from course_lib.fast.flash import add_tile
from course_lib.fast.recompute import selective_contexts
from course_lib.gpt import GPT, GPTConfig
from course_lib.lab import figures
from course_lib.measure.activations import activation_bytes
from course_lib.measure.formats import FORMATS
from course_lib.measure.held import Held

init, shift = figures.reference("init"), figures.reference("loss-shift")
activations = figures.reference("activations")
resume, timeline = figures.reference("resume"), figures.reference("timeline")
flash = figures.reference("flash")
line = figures.reference("number-line")


@pytest.mark.parametrize(
    ("depth", "std", "scaled"), [(6, 0.02, True), (6, 1, False), (48, 0.02, False)]
)
def test_init_table_is_what_the_model_gives(depth, std, scaled):
    stored = init.model_of({"depth": depth, "std": std, "scaled": scaled})
    (row,) = init.measure(depth, [(std, scaled)])
    # three stored digits are within 0.5 percent; the rest is room for another machine's sums
    assert row[:-1] == pytest.approx(stored["rms"], rel=0.02)
    assert row[-1] == pytest.approx(stored["loss"], rel=0.01)


def test_init_shows_what_its_words_say():
    at = {scaled: init.compute({**init.DEFAULTS, "scaled": scaled}) for scaled in (True, False)}
    assert at[True]["growth"] < 1.5 and at[False]["growth"] > 10
    assert abs(at[True]["loss"] - at[True]["ln_v"]) < 0.1


@pytest.mark.parametrize("by", shift.SHIFTS)
def test_shift_table_is_what_training_gives(by):
    losses, _ = shift.train(by, steps=20)
    stored = shift.compute({"shift": by, "at": 0})["curve"]
    assert losses == pytest.approx(stored[:3], abs=0.05)


@pytest.mark.parametrize("by", shift.SHIFTS)
def test_shift_losses_stay_above_the_closed_form(by):
    result = shift.compute({"shift": by, "at": 0})
    # 16 windows of 14 words: the sampled words' own entropy is off by a few hundredths
    assert result["floor"] - 0.03 < result["final"] < result["floor"] + 0.15
    words = result["writes"].split()
    grammatical = all(b in shift.FOLLOWS[a] for a, b in zip(words, words[1:], strict=False))
    assert grammatical == (by == 1) and words[0] == "a"


def test_resume_table_is_what_the_trainer_gives():
    whole = resume.train(steps=16)
    stored = resume.compute({"forgotten": "nothing", "at": 8})
    assert whole == pytest.approx(stored["whole"][:8], abs=0.02)
    assert resume.train(8, steps=16) == whole[4:], "to the bit, when nothing is forgotten"
    for part in resume.MEASURED:
        losses = resume.train(8, part, steps=16)
        expected = resume.compute({"forgotten": part, "at": 8})["resumed"][:4]
        assert losses == pytest.approx(expected, abs=0.02), part


@pytest.mark.parametrize("at", resume.RESUMES)
def test_resume_shows_what_its_words_say(at):
    first = {f: resume.compute({"forgotten": f, "at": at})["first"] for f in resume.NAMES}
    assert first["optimizer"] == first["step"] == first["nothing"] == first["random"] == 0
    assert first["model"] > 0.3 and first["loader"] != 0


def timeline_at(**state) -> dict:
    return timeline.compute({**timeline.DEFAULTS, **state})


@pytest.mark.parametrize("mode", ["ddp", "free", "keep"])
def test_timeline_answers_its_question_for_every_way_to_run(mode):
    ends = {size: timeline_at(mode=mode, size=size)["end"] for size in (1, 2, 4, 8)}
    assert min(ends, key=ends.get) == 2
    waits = {size: timeline_at(mode=mode, size=size, overlap=False)["end"] for size in ends}
    assert min(waits, key=waits.get) == 8, (
        "with nothing beside it, fewer starts are all that counts"
    )


@pytest.mark.parametrize("state", timeline.CASES, ids=str)
def test_timeline_keeps_lanes_and_ranks_in_order(state):
    boxes = timeline.compute(state)["boxes"]
    for rank in (0, 1):
        for lane in (False, True):
            ends = 0
            for box in boxes:
                if bool(box["mb"]) == lane:
                    assert box["start"][rank] >= ends
                    ends = box["end"][rank]
    assert all(box["start"][0] == box["start"][1] for box in boxes if box["mb"])


def test_timeline_counts_what_sharding_sends_and_holds():
    whole = timeline.LAYERS * timeline.MB
    assert timeline_at(size=2)["sent"] == 2 * whole * 3 / 4 == timeline_at(mode="keep")["sent"]
    assert timeline_at(mode="free")["sent"] == 3 * whole * 3 / 4
    assert timeline_at(mode="free", size=1)["peak"] == whole / 4 + 2 * timeline.MB
    assert timeline_at(mode="free", size=1, overlap=False)["peak"] == whole / 4 + timeline.MB
    assert timeline_at(mode="keep", size=1)["peak"] == whole / 4 + whole


@pytest.mark.parametrize("state", [c for c in flash.CASES if c.get("code") != "forgets"], ids=str)
def test_flash_remembers_what_add_tile_does(state):
    total = torch.zeros(1).double()
    found = total - torch.inf, total, total.view(1, 1)
    result = flash.compute({**flash.DEFAULTS, **state})
    for row in result["trace"]:
        scores = torch.tensor([row["scores"]]).double()
        found = add_tile(*found, scores, torch.zeros(scores.shape[1], 1).double())
        assert (row["peak"], row["total"]) == pytest.approx([x.item() for x in found[:2]])
    assert result["lse"] == pytest.approx(result["right"])


def test_flash_presets_show_what_their_labels_say():
    never, lucky = (
        flash.compute({**flash.DEFAULTS, **flash.PRESETS[p]}) for p in ("no-rescale", "lucky")
    )
    assert never["lse"] - never["right"] > 0.1 and lucky["lse"] == pytest.approx(lucky["right"])
    rises = flash.compute({**flash.DEFAULTS, **flash.PRESETS["rises"]})["trace"]
    assert [row["peak"] for row in rises[-2:]] == [3, 5] and round(rises[-1]["keep"], 3) == 0.135


@pytest.mark.parametrize("state", activations.CASES[::4], ids=str)
def test_activations_are_what_the_formula_says(state):
    kept, L = activations.compute(state)["kept"], activations.LAYERS
    config = GPTConfig.preset("small", vocab_size=state["V"], max_seq_len=4096)
    for fast, bar in ((False, kept[0]), (True, kept[1])):
        parts = activation_bytes(replace(config, fast_attention=fast), state["B"], state["T"])
        norms, attention, square, mlp, inputs, loss = (1e9 * x for x in bar)
        assert inputs == 0
        found = norms, attention + square, mlp, loss
        assert found == pytest.approx(tuple(parts.values()), rel=1e-12)
    wide = 4 * state["T"] * state["B"] * config.d_model
    assert kept[3][4] * 1e9 == pytest.approx(L * wide)


def test_activations_with_the_products_kept_are_what_a_block_holds():
    config = GPTConfig.preset("small", vocab_size=8192, fast_attention=False, num_layers=1)
    block, x = GPT(config).blocks[0], torch.randn(2, 64, 384, requires_grad=True) + 0
    args = block.attention_norm.weight.new_zeros(2, 64, 64).unbind()
    with Held() as held:
        out = checkpoint(block, x, *args, use_reentrant=False, context_fn=selective_contexts)
        alive = held.bytes() - out.nbytes  # the input was there before
    bar = activations.compute({"T": 64, "B": 2, "V": 8192})["kept"][2]
    _, attention, square, mlp, _, _ = (1e9 * v / activations.LAYERS for v in bar)
    assert alive == pytest.approx(attention + square + mlp)


def test_number_line_counts_are_those_of_the_model():
    counts = line.measure()
    assert sum(counts) == sum(line.COUNTS)
    # a gradient at a power of two may fall to either side by another machine's sums
    assert counts == pytest.approx(line.COUNTS, rel=0.01, abs=3)


def test_number_line_shows_what_its_words_say():
    at = {name: line.compute({**line.DEFAULTS, **state}) for name, state in line.PRESETS.items()}
    assert at["default"]["lost"] > 80 and at["scaled"]["lost"] == at["scaled"]["over"] == 0
    assert at["overflow"]["over"] > 0 and at["bf16"]["normal"] == 100


@pytest.mark.parametrize("name", line.FORMATS)
def test_number_line_formats_are_those_of_the_library(name):
    f, (_, low, normal, top, largest) = FORMATS[name], line.FORMATS[name]
    assert (f.smallest, f.smallest_normal, f.largest) == (2.0**low, 2.0**normal, largest)
    assert 2.0**top <= f.largest < 2.0 ** (top + 1)
