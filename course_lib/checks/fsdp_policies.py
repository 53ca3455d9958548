"""Checks of lesson 23: FSDPTrainer._get_mixed_precision_policy and _get_fsdp_policy.

Two ranks train with the answer's decision; bytes of collectives, dtypes inside a block and the memory
of a forward pass say what it does.
"""

from typing import Any

import torch

from course_lib.checks import expect
from course_lib.checks import fsdp_runs as runs
from course_lib.checks.report import Wrong
from course_lib.checks.subject import AnswerError, Subject
from course_lib.checks.suite import Draw, Suite
from course_lib.probes.fsdp import DTYPES
from course_lib.training.fsdp_config import STRATEGIES

PRECISION, UNITS = "_get_mixed_precision_policy", "_get_fsdp_policy"
LOW = {"bf16": torch.bfloat16, "fp16": torch.float16}
# a loss is a mean over logits of about 1 that are each off by some eps of the dtype; so are gradients
EPS = {"bf16": 2**-8, "fp16": 2**-11}


def a_policy(subject: Subject, draw: Draw) -> None:
    """A MixedPrecisionPolicy comes back, and float32 stays float32."""
    found = runs.run_decisions(subject, PRECISION, [{}, *({"precision": name} for name in LOW)])
    for one, name in zip(found, ("fp32", *LOW), strict=True):
        _of_type(one, "dict", "a MixedPrecisionPolicy", f"precision {name}")
    for field, word in (
        ("param", "param_dtype"),
        ("reduce", "reduce_dtype"),
        ("output", "output_dtype"),
    ):
        if found[0][field] not in (None, torch.float32):
            raise Wrong(
                "PRECISION-FP32",
                "float32 is not left alone",
                tried="precision fp32",
                expected=f"{word} None or float32",
                got=_name(found[0][field]),
                fits="a dtype that does not come from `self.dtype`.",
                look="what the dtype is taken from.",
            )
    for one, name in zip(found[1:], LOW, strict=True):
        if one["output"] is not None:
            raise Wrong(
                "PRECISION-OUTPUT",
                "every unit casts its output",
                tried=f"precision {name}",
                expected="output_dtype None",
                got=_name(one["output"]),
                hides="activations between blocks change dtype at each of them.",
                look="the docstring: what is cast, and what is not.",
            )


def the_trainers_dtype(subject: Subject, draw: Draw) -> None:
    """What counts is `self.dtype`, to which "auto" and other words of the settings have led."""
    words = (("auto", "bf16"), ("auto", "fp16"), ("auto", "fp32"), ("ieee", "fp32"))
    cases = [{"precision": word, "dtype": dtype} for word, dtype in words]
    plain = [{"precision": dtype} for _, dtype in words]
    found = runs.run_decisions(subject, PRECISION, cases + plain)
    for (word, dtype), one, due in zip(words, found[:4], found[4:], strict=True):
        if one != due:
            raise Wrong(
                "PRECISION-ASKED",
                "the word of the settings counts, not the dtype that it led to",
                tried=f'self.dtype {_name(DTYPES[dtype])}, self.config.precision "{word}"',
                expected=_policy(due),
                got=_policy(one),
                look="`self.dtype`.",
            )


def beside_the_dtype(subject: Subject, draw: Draw) -> None:
    """Nothing else counts: ranks, strategies, devices, torch's default dtype."""
    around: list[tuple[str, dict[str, Any]]] = [
        ("1 rank", {}),
        ("a world of 8 ranks", {"world_size": 8}),
        *((name, {"sharding": name}) for name in STRATEGIES[1:]),
        ("self.device of type meta", {"device": "meta"}),
        *((f"torch's default dtype {_name(DTYPES[name])}", {"default": name}) for name in LOW),
    ]
    tries = [(name, said, case) for said, case in around for name in ("fp32", *LOW)]
    cases = [{"precision": name, **case} for name, _, case in tries]
    found = runs.run_decisions(subject, PRECISION, cases)
    for (name, said, _), one in zip(tries, found, strict=True):
        tried = f"precision {name}, {said}"
        _of_type(one, "dict", "a MixedPrecisionPolicy", tried)
        none = (None, torch.float32)
        if name == "fp32":
            right = one["param"] in none and one["reduce"] in none and one["output"] in none
        else:
            right = tuple(one.values()) == (LOW[name], torch.float32, None, False)
        if not right:
            raise Wrong(
                "PRECISION-BESIDE",
                "something else than `self.dtype` counts",
                tried=tried,
                expected="nothing cast"
                if name == "fp32"
                else f"param_dtype {_name(LOW[name])}, reduce_dtype float32, inputs as they are",
                got=f"{_policy(one)}, inputs {'cast' if one['inputs'] else 'as they are'}",
                look="conditions on other things than the dtype, and dtypes that are not written out.",
            )


def _policy(found: Any) -> str:
    if not isinstance(found, dict):
        return str(found)[:60]
    return f"param_dtype {_name(found['param'])}, reduce_dtype {_name(found['reduce'])}"


def _of_type(found: Any, kind: str, wanted: str, tried: str) -> None:
    expect.not_none(found, wanted, tried=tried)
    if type(found).__name__ != kind:
        raise Wrong(
            "TYPE",
            f"the answer is not {wanted}",
            tried=tried,
            expected=wanted,
            got=str(found)[:70],
            hides="FSDP1's MixedPrecision and wrap policies are other classes.",
            look="the return type in the first line.",
        )


def _name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def collective_dtypes(subject: Subject, draw: Draw) -> None:
    """On two ranks: 2 bytes a parameter in gathers, 4 in reductions, tables and shards in float32."""
    cases = [{"precision": name, "seed": draw.seed} for name in LOW]
    for name, by_rank in zip(LOW, runs.run_steps(subject, draw, cases, 2), strict=True):
        one, tried = by_rank[0], f"precision {name}, 2 ranks"
        _gathers(one, name, tried)
        if (got := runs.per_number(one, "reduce_scatter")) != 4:
            raise Wrong(
                "PRECISION-REDUCE",
                f"gradients are added up in {name}",
                tried=tried,
                expected="reduce-scatters of 4 bytes a parameter",
                got=f"{got:g} bytes",
                fits="a reduce_dtype of None, which takes that of the weights, or a low one.",
                hides="two ranks lose little; a sum over 256 loses the small addends.",
                look="`reduce_dtype`.",
            )
        if (table := one["dtypes"]["table"]) != torch.float32:
            raise Wrong(
                "PRECISION-INPUTS",
                "the tables of rotary angles are rounded",
                tried=tried,
                expected="cos and sin in float32 inside a block",
                got=_name(table),
                fits="a policy that casts what goes into a module, as by default.",
                hides="late positions then lie on wrong angles.",
                look="what the docstring says of the inputs of modules.",
            )
        runs.same_gradient(by_rank, draw, tried, close=8 * EPS[name])


def _gathers(one: dict, name: str, tried: str) -> None:
    used, got = one["dtypes"]["weight"], runs.per_number(one, "allgather")
    facts = dict(
        tried=tried,
        expected=f"all-gathers of 2 bytes a parameter, weights in {_name(LOW[name])}",
        got=f"{got:g} bytes, weights in {_name(used)}",
    )
    if used == LOW[name] and got == 2:
        return
    if used == torch.float32:
        raise Wrong(
            "PRECISION-IGNORED",
            f"{name} is asked for, and nothing is cast",
            **facts,
            hides="the losses are right, even a little better; half the bytes are waste.",
            look="`param_dtype`.",
        )
    raise Wrong(
        "PRECISION-FIXED",
        f"{name} is asked for, {_name(used)} is used",
        **facts,
        fits="one low dtype for both.",
        look="what the dtype is taken from.",
    )


def modules(subject: Subject, draw: Draw) -> None:
    """A list of modules of the model comes back."""
    _modules_of_the_model(runs.run_decisions(subject, UNITS, [{}])[0], "4 blocks, 1 rank")


def _modules_of_the_model(found: Any, tried: str) -> None:
    _of_type(found, "list", "a list of modules", tried)
    for one in found:
        if not isinstance(one, dict) or one["module"] is None:
            got = one if not isinstance(one, dict) else f"a {one['kind']} of another model"
            raise Wrong(
                "TYPE",
                "the list holds something else",
                tried=tried,
                expected="modules of self.plain_model",
                got=str(got)[:70],
                look="types, names or copies in place of the modules themselves.",
            )


def units(subject: Subject, draw: Draw) -> None:
    """Each block once, then the root; what else learners wrap is told with what it costs."""
    found = runs.run_decisions(subject, UNITS, [{}])[0]
    names, kinds = [one["module"] for one in found], [one["kind"] for one in found]
    shown = ", ".join(n or "the root" for n in names[:5]) + (
        f", ... {len(names) - 5} more" if len(names) > 5 else ""
    )
    facts = dict(tried="4 blocks", expected="the 4 blocks, then the root", got=shown or "nothing")
    if kinds == ["root"]:
        raise _root_only(subject, draw, facts)
    if "root" not in kinds:
        raise Wrong(
            "POLICY-NO-ROOT",
            "the root is no unit",
            **facts,
            hides="embedding, last norm and head stay whole on every rank, with their state.",
            look="what the docstring names after the blocks.",
        )
    if small := [k for k in kinds if k not in ("block", "root")]:
        raise _too_small(subject, draw, facts, small[0])
    if kinds[-1] != "root" or len(set(names)) < len(names):
        raise Wrong(
            "POLICY-ORDER",
            "the root does not come last, or a module comes twice",
            **facts,
            fits="the root before its blocks: it takes all, and leaves them nothing.",
            look="the order of the list.",
            preset="timeline:fsdp-whole",
        )
    if len(names) != 5:
        raise Wrong(
            "POLICY-MISSING",
            "some blocks are no unit of their own",
            **facts,
            hides="the root takes their weights, and gathers them with its own.",
            look="how the blocks are found.",
        )


def order_of_blocks(subject: Subject, draw: Draw) -> None:
    """Twelve blocks: first to last, those that do not train and those of derived classes among them."""
    frozen = [draw.size(1, 2), 7]
    derived = [[draw.size(4, 5), 11], [0, draw.size(6, 3)], list(range(12))]
    large = {"model_size": "134m", "frozen": frozen, "anew": True}
    cases = [{}, large, *(large | {"derived": one} for one in derived)]
    _, found, *others = runs.run_decisions(subject, UNITS, cases)
    if any(one["module"] is None for one in found + sum(others, [])):
        raise Wrong(
            "REMEMBERS",
            "a trainer gets the modules of another one",
            tried="a trainer of 4 blocks, then some of 12, in one process",
            expected="modules of its own plain_model for each",
            got="modules that were found for an earlier trainer",
            look="what is kept in the class, or outside it.",
        )
    names = [str(one["module"]) for one in found][:-1]
    for numbers, other in zip(derived, others, strict=True):
        _derived_and_others(other, numbers)
    due = [f"blocks.{number}" for number in range(12)]
    if names == due:
        return
    facts = dict(
        tried=f"12 blocks, of which {frozen[0]} and {frozen[1]} do not train",
        expected="blocks.0 to blocks.11, then the root",
    )
    if sorted(names) == sorted(due):
        raise Wrong(
            "POLICY-BLOCK-ORDER",
            "the blocks are in another order",
            **facts,
            got=", ".join(names[:5]) + ", ...",
            hides="a unit asks for the weights of the next one in the list before it computes;\n"
            "ranks with different orders wait for one another.",
            look="what loses or turns the order: a set, a sort by name, a reversed list.",
        )
    missing = [name for name in due if name not in names]
    raise Wrong(
        "POLICY-MISSING",
        "some blocks are no unit of their own",
        **facts,
        got=f"{', '.join(missing[:6])} missing" if missing else f"{len(names)} units and the root",
        hides="the root takes their weights, and gathers them with its own.",
        look="how the blocks are found.",
    )


def _derived_and_others(found: list[dict], derived: list[int]) -> None:
    """Blocks of the class itself, of a derived one, and of one that is derived from that."""
    names = [one["module"] for one in found]
    missing = [f"blocks.{number}" for number in range(12) if f"blocks.{number}" not in names]
    if missing:
        shown = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        which = " and ".join(map(str, derived)) if len(derived) < 12 else "all"
        raise Wrong(
            "POLICY-MISSING",
            "some blocks are no unit of their own",
            tried=f"12 blocks, of which {which} are of classes derived from TransformerBlock",
            expected="blocks.0 to blocks.11, then the root",
            got=f"{shown} missing",
            fits="a comparison with the very class, or with its name."
            if int(missing[0].partition(".")[2]) in derived
            else "the class of one block taken for that of all.",
            hides="the root takes their weights, and gathers them with its own.",
            look="`isinstance`, which takes what is derived, and the class it is given.",
        )


def scattered_blocks(subject: Subject, draw: Draw) -> None:
    """By class, not by place: a block in a wrapper, one outside `blocks`, and a norm in there."""
    wrapped = draw.size(1, 2)
    case = {"model_size": "tiny", "anew": True, "wrapped": wrapped}
    found = runs.run_decisions(subject, UNITS, [case])[0]
    tried = (
        f"4 blocks and a norm in `blocks`, blocks.{wrapped} an nn.Sequential around its block;\n"
        "one more block outside, `last_block`"
    )
    _modules_of_the_model(found, tried)
    names = [one["module"] for one in found]
    in_blocks = [f"blocks.{n}" + ".0" * (n == wrapped) for n in range(4)]
    due = [*in_blocks, "last_block", ""]
    facts = dict(tried=tried, expected=_units_in_words(due), got=_units_in_words(names))
    look = "what a unit is found by: its class, anywhere in the model, not its place."
    if [name for name in due[:-1] if name not in names]:
        raise Wrong(
            "POLICY-MISSING",
            "some blocks are no unit of their own",
            **facts,
            fits="a search in `blocks` alone, or no deeper than what it lists.",
            hides="another module takes their weights, and gathers them with its own.",
            look=look,
        )
    if others := [one["kind"] for one in found if one["module"] not in due]:
        raise Wrong(
            "POLICY-SMALL",
            f"a {others[0]} is a unit of its own",
            **facts,
            hides="many small collectives, each of which waits for all ranks.",
            look=look,
        )
    inside = [name for name in names if name in in_blocks]  # the one outside may be anywhere
    if inside != in_blocks or len(names) != len(due) or names[-1]:
        raise Wrong(
            "POLICY-BLOCK-ORDER",
            "the units are in another order, or one comes twice",
            **facts,
            look="what puts one kind of place before another.",
        )


def shared_block(subject: Subject, draw: Draw) -> None:
    """A block that stands in several places is one unit."""
    shared = draw.size(0, 1, 2)
    case = {"model_size": "tiny", "anew": True, "shared": shared}
    found = runs.run_decisions(subject, UNITS, [case])[0]
    tried = (
        f"4 blocks in `blocks`, of which block {shared} comes once more at the end,\n"
        "and stands in another module, `extra`, too"
    )
    _modules_of_the_model(found, tried)
    names = [one["module"] for one in found]
    due = [*(f"blocks.{n}" for n in range(4)), ""]
    facts = dict(tried=tried, expected=_units_in_words(due), got=_units_in_words(names))
    if len(set(names)) < len(names):
        raise Wrong(
            "POLICY-TWICE",
            "a module is listed more than once",
            **facts,
            fits="a list of places, not of modules.",
            hides="`fully_shard` refuses a module that it has had already.",
            look="how the blocks are walked: `modules()` gives each module once.",
        )
    if sorted(names) != sorted(due) or names[-1]:
        raise Wrong(
            "POLICY-MISSING" if set(due) - set(names) else "OTHER",
            "the units are others where a block is shared",
            **facts,
            look="what is done with a block that has come before.",
        )


def _units_in_words(names: list[str]) -> str:
    return ", ".join(name or "the root" for name in names) or "nothing"


def _root_only(subject: Subject, draw: Draw, facts: dict) -> Wrong:
    one = runs.run_steps(subject, draw, [{}], 2, peak=True)[0][0]
    facts |= {
        "got": f"the root alone: a forward pass that makes up to {one['peak'] / 1e6:.1f} MB,\n"
        f"of which {4 * one['whole'] / 1e6:.1f} MB are the gathered model"
    }
    return Wrong(
        "POLICY-ROOT-ONLY",
        "everything is gathered at once",
        **facts,
        hides="shards are small, the losses right: only the peak tells.",
        look="how many modules go through `fully_shard`.",
        preset="timeline:fsdp-whole",
    )


def _too_small(subject: Subject, draw: Draw, facts: dict, kind: str) -> Wrong:
    try:
        sent = runs.count(runs.run_steps(subject, draw, [{}], 2)[0][0], "allgather")
        facts |= {
            "expected": facts["expected"] + ": 9 all-gathers",
            "got": facts["got"] + f":\n{sent} all-gathers",
        }
    except AnswerError:
        pass  # torch refuses some of these; the list says enough
    return Wrong(
        "POLICY-SMALL",
        f"a {kind} is a unit of its own",
        **facts,
        hides="many small collectives, each of which waits for all ranks.",
        look="which modules become units.",
    )


def gathers(subject: Subject, draw: Draw) -> None:
    """Two ranks train with it: one block after the other, in little memory."""
    by_rank = runs.run_steps(subject, draw, [{"seed": draw.seed}], 2)[0]
    runs.expect_sends(by_rank[0], "FULL_SHARD, 2 ranks", allgather=9, reduce_scatter=5)
    runs.same_gradient(by_rank, draw, "FULL_SHARD, 2 ranks")


SUITES = (
    Suite(
        "mixed-precision-policy",
        (a_policy, the_trainers_dtype, collective_dtypes, beside_the_dtype),
        tested="weights travel and work in the low dtype, what is added up stays in float32: "
        "2 bytes a parameter in a gather, 4 in a reduction.",
        remember="no autocast: the gathered copy is the low one, the shard is float32.",
        next_step="the bytes of all collectives for FULL_SHARD in bf16, beside DDP's in fp32.",
        ranks=2,
        sends_much=True,
        limit_s=12.0,
    ),
    Suite(
        "fsdp-policy",
        (modules, units, order_of_blocks, scattered_blocks, shared_block, gathers),
        tested="each block is gathered, used and freed by itself; the root takes the rest.",
        remember="the memory above the shards is that of the largest units, not of the model.",
        next_step="two blocks a unit: half the collectives, and what at the peak?",
        ranks=2,
        sends_much=True,
        limit_s=12.0,
    ),
)
