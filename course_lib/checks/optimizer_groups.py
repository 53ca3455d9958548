"""Checks of lesson 09: DistributedTrainer._setup_optimizer.

Oracle: the parameters of the model by name and shape, and one update: AdamW moves a weight by lr
and by lr * weight_decay of itself, side by side.
"""

from torch import Tensor

from course_lib.checks.report import Wrong, number
from course_lib.checks.subject import AnswerError, Module, Subject
from course_lib.checks.suite import DYNAMO, Draw, Suite
from course_lib.training.train_config import TrainConfig

V = 37
ODD = "course_lib.probes.modules:group_odd_model"
SMALL = {
    "row": [1, 3], "column": [3, 1], "number": [1, 1], "single": [1], "head": [2, 3],
    "bf16": [3, 2], "frozen_row": [1, 2],
}  # fmt: skip
"""Matrices with sides of 1, one of bfloat16, and one whose name is that of a tied weight."""
UNTIED = {"embedding.weight": [4, 3], "norm.gain": [3], "head.weight": [4, 3]}
"""The names of the course's model, with a head of its own."""


def _config(draw: Draw, **changes) -> TrainConfig:
    """Settings of which none is a default, neither torch's nor the course's."""
    settings = dict(
        model_size="tiny",
        seq_len=8,
        batch_size=2,
        precision="fp32",
        warmup_steps=0,
        lr=1e-3 * draw.size(3, 2, 4),
        weight_decay=0.1 * draw.size(3, 2, 4),
        beta1=0.85,
        beta2=0.97,
    )
    return TrainConfig(**(settings | changes))


def _trainer(subject: Subject, draw: Draw, config: TrainConfig) -> Module:
    tokens = draw.randint(0, V, (64,)).numpy().astype("uint16")
    try:
        return subject.module(config, tokens, vocab_size=V, seed=draw.seed)
    except AnswerError as failure:
        text = str(failure.error)
        if "more than one parameter group" in text or "duplicate parameters" in text:
            raise Wrong(
                "GROUPS-TWICE",
                "a parameter is in both groups",
                got=f"torch: {text}"[:76],
                tried="the preset tiny",
                expected="each parameter in one group, once",
                look="the two conditions: which tensor meets both?",
            ) from None
        raise


def _groups(trainer: Module) -> list[dict]:
    """The groups in plain values; `Wrong` when there is no optimizer with betas."""
    facts = dict(tried="trainer.optimizer", expected="a torch.optim.AdamW")
    try:
        return trainer.method("optimizer_groups")
    except AnswerError as failure:
        text = str(failure.error)
        if isinstance(failure.error, AttributeError) and "NoneType" in text:
            raise Wrong(
                "NONE",
                "the answer returned None",
                got="None",
                **facts,
                look="the last line: is there a `return`?",
            ) from None
        if isinstance(failure.error, AttributeError) and "param_groups" in text:
            raise Wrong(
                "TYPE",
                "the answer returned no optimizer",
                got=text[:76],
                **facts,
                look="what stands after `return`.",
            ) from None
        if isinstance(failure.error, KeyError) and "betas" in text:
            raise Wrong(
                "GROUPS-NOT-ADAMW",
                "the optimizer has no betas",
                **facts,
                got="groups without betas",
                look="the class of the optimizer.",
            ) from None
        raise


def every_parameter(subject: Subject, draw: Draw) -> None:
    """Each parameter of the model is in one group, once; nothing else is."""
    trainer = _trainer(subject, draw, _config(draw))
    names = [name for group in _groups(trainer) for name in group["names"]]
    wanted = trainer.method("weights")
    tried = f"the preset tiny: {len(wanted)} parameters, embedding and head tied"
    strange = [n for n in names if n not in wanted]
    if strange:
        raise Wrong(
            "GROUPS-COPIES",
            "the optimizer holds tensors that are not the model's",
            tried=tried,
            expected="the parameters themselves",
            got=f"{len(strange)} of other origin",
            hides="the copies would be trained, the model never.",
            look="`clone`, `detach`, `.data`, `.to(...)`, `state_dict()`.",
        )
    if missing := [n for n in wanted if n not in names]:
        raise Wrong(
            "GROUPS-MISSING",
            f"{len(missing)} parameters are in no group",
            tried=tried,
            expected="every parameter in one group",
            got=f"left out: {_list_names(missing)}",
            hides="they would keep their first values, without any error.",
            look="what neither condition lets through; a generator is used up once.",
        )
    if twice := sorted({n for n in names if names.count(n) > 1}):
        raise Wrong(
            "GROUPS-TWICE",
            "a parameter is listed twice",
            tried=tried,
            expected="each parameter once",
            got=f"twice: {_list_names(twice)}",
            hides="it would be updated twice in each step.",
            look="names of one tensor: `remove_duplicate`, a head added by hand.",
        )


def by_dimensions(subject: Subject, draw: Draw) -> None:
    """Two groups: tensors of two and more dimensions decay, the others do not."""
    config = _config(draw)
    trainer = _trainer(subject, draw, config)
    groups, dims = (
        _groups(trainer),
        {n: w.dim() for n, w in trainer.method("weights").items()},
    )
    decays = {name: group["weight_decay"] for group in groups for name in group["names"]}
    matrices, gains = (
        [n for n in dims if dims[n] >= 2],
        [n for n in dims if dims[n] < 2],
    )
    tried = f"weight_decay {config.weight_decay:g}; {len(matrices)} matrices, {len(gains)} gains"
    facts = dict(tried=tried, expected="matrices decay, gains do not")
    if not any(decays[n] for n in matrices) and all(decays[n] for n in gains):
        raise Wrong(
            "GROUPS-SWAPPED",
            "the decay is on the wrong group",
            **facts,
            got="gains decay, matrices do not",
            look="the two conditions.",
        )
    if not any(decays.values()):
        raise Wrong(
            "GROUPS-NO-DECAY",
            "nothing decays",
            **facts,
            got="weight_decay 0 everywhere",
            look="the number of dimensions of a matrix; the decay of the first group.",
        )
    _gains_stay({n: decays[n] for n in gains}, config, facts)
    if still := [n for n in matrices if not decays[n]]:
        raise Wrong(
            "GROUPS-MATRIX",
            f"without decay: {len(still)} of {len(matrices)} matrices",
            **facts,
            got=f"weight_decay 0 for {_list_names(still)}",
            look="`p.dim()`: the contract goes by dimensions, not by name.",
        )
    if len(groups) != 2 or not groups[0]["weight_decay"]:
        raise Wrong(
            "GROUPS-ORDER",
            "the groups are not the two of the contract",
            tried=tried,
            expected="two groups, the one that decays first",
            got=f"{len(groups)} groups, weight_decay "
            f"{', '.join(number(g['weight_decay']) for g in groups[:6])}",
            look="the docstring: number and order of the groups.",
        )


def _gains_stay(decays: dict[str, float], config: TrainConfig, facts: dict) -> None:
    moving = [n for n, decay in decays.items() if decay]
    if not moving:
        return
    found = decays[moving[0]]
    if found == 0.01 and config.weight_decay != 0.01:
        raise Wrong(
            "GROUPS-DEFAULT-DECAY",
            "gains decay a little",
            got="weight_decay 0.01 for gains",
            fits="torch.optim.AdamW's own default, for a group that names no decay.",
            look="the second group's `weight_decay`.",
            **facts,
        )
    raise Wrong(
        "GROUPS-GAINS",
        f"{len(moving)} gains decay",
        **facts,
        got=f"weight_decay {number(found)} for {_list_names(moving)}",
        hides="a gain is pulled toward 0, where it mutes its branch.",
        look="how a gain is told from a matrix.",
        preset="adamw:silent",
    )


def another_model(subject: Subject, draw: Draw) -> None:
    """The rule goes by dimensions and by who takes a gradient; there are two groups always."""
    shapes = {
        "scale": [3], "table": [4, 3], "kernel": [2, 3, 2], "norm_matrix": [3, 3], "shift": [],
        "bias_matrix": [2, 2], "frozen": [2, 2], "frozen_gain": [2],
    }  # fmt: skip
    matrices = ["bias_matrix", "kernel", "norm_matrix", "table"]
    facts = dict(look="the docstring: `p.dim()`, `p.requires_grad`, two groups.")
    for decay, given, frozen, first, second in (
        (0.3, shapes, ["frozen", "frozen_gain"], matrices, ["scale", "shift"]),
        (0.3, SMALL, ["frozen_row"], sorted(SMALL.keys() - {"single", "frozen_row"}), ["single"]),
        (0.0, {"table": [4, 3]}, [], ["table"], []),
        (0.3, UNTIED, [], sorted(UNTIED.keys() - {"norm.gain"}), ["norm.gain"]),
        (0.3, {"scale": [3], "shift": []}, [], [], ["scale", "shift"]),
        (0.3, {"table": [4, 3], "scale": [3]}, ["scale", "table"], [], []),
    ):
        trainer = _trainer(subject, draw, _config(draw))
        groups = trainer.probe(ODD, given, frozen, decay)
        found = [(sorted(g["names"]), g["weight_decay"]) for g in groups]
        names = sorted(name for group, _ in found for name in group)
        facts["tried"] = f"a model of other tensors, weight_decay {decay:g}:\n" + ", ".join(
            f"{n} {tuple(s)}" for n, s in given.items()
        )
        facts["expected"] = (
            f"two groups: {', '.join(first) or 'nothing'}; {', '.join(second) or 'nothing'}"
        )
        facts["got"] = "; ".join(", ".join(dict.fromkeys(group)) or "nothing" for group, _ in found)
        if names != sorted(first + second) and set(names) - set(first + second) <= set(frozen):
            if set(names) & set(frozen):
                raise Wrong(
                    "GROUPS-FROZEN", "a parameter without a gradient is in a group", **facts
                )
        if len(found) != 2:
            raise Wrong("GROUPS-ORDER", "the groups are not the two of the contract", **facts)
        if [group for group, _ in found] != [first, second]:
            raise Wrong("GROUPS-BY-NAME", "another model gets other groups", **facts)
        if [d for _, d in found] != [decay, 0.0]:
            facts["expected"] = f"weight_decay {decay:g}, then 0"
            facts["got"] = ", ".join(number(d) for _, d in found)
            raise Wrong("GROUPS-FIXED-DECAY", "the decay is not that of the config", **facts)


def own_parameters(subject: Subject, draw: Draw) -> None:
    """A parameter is told by what it is: not by its numbers, which others have too, nor by where
    they lie, be it one buffer for all or nowhere, as those of a shard without numbers."""
    for flat, given, words in (
        (False, {"a": [2, 3], "b": [2, 3], "c": [3], "d": [3]}, "tensors of ones"),
        (True, {"a": [2, 3], "b": [3], "c": [4, 3], "d": [2]}, "tensors in one buffer"),
        (
            False,
            {"a": [0, 3], "b": [0], "c": [2, 0], "d": [0], "e": [2, 3]},
            "some without numbers",
        ),
        (True, {"a": [0, 3], "b": [2], "c": [2, 2], "d": [0]}, "some without numbers, one buffer"),
    ):
        trainer = _trainer(subject, draw, _config(draw))
        groups = trainer.probe(ODD, given, [], 0.3, flat)
        found = [sorted(g["names"]) for g in groups]
        right = [
            [n for n, s in given.items() if len(s) >= 2],
            [n for n, s in given.items() if len(s) < 2],
        ]
        if found != right:
            listed = ", ".join(f"{n} {tuple(s)}" for n, s in given.items())
            raise Wrong(
                "GROUPS-ADDRESS",
                "a parameter is taken for another one",
                tried=f"{words}: {listed}",
                expected="; ".join(", ".join(group) for group in right),
                got="; ".join(", ".join(group) or "nothing" for group in found),
                fits="`data_ptr()`, a storage, or numbers, by which tied tensors are to be found.",
                look="`parameters()` gives each tensor once, a tied one too; `is` compares them.",
            )


def settings(subject: Subject, draw: Draw) -> None:
    """Rate, betas and decay are those of the config, 0 too, and the rate not one of the warmup."""
    for changes in (dict(warmup_steps=5, max_steps=20), dict(beta1=0.0, beta2=0.0)):
        _as_configured(subject, draw, _config(draw, **changes))


def _as_configured(subject: Subject, draw: Draw, config: TrainConfig) -> None:
    groups = _groups(_trainer(subject, draw, config))
    betas, found = [config.beta1, config.beta2], list(groups[0]["betas"])
    tried = f"lr {config.lr:g}, weight_decay {config.weight_decay:g}, betas {betas}"
    if groups[0]["weight_decay"] != config.weight_decay:
        raise Wrong(
            "GROUPS-FIXED-DECAY",
            "the decay is not that of the config",
            tried=tried,
            expected=number(config.weight_decay),
            got=number(groups[0]["weight_decay"]),
            look="`self.config.weight_decay`.",
        )
    for group in groups:
        if list(group["betas"]) != betas:
            fits = {
                (0.9, 0.999): "torch's defaults.",
                (0.9, 0.95): "the course's defaults.",
                tuple(reversed(betas)): "the two exchanged.",
            }
            raise Wrong(
                "GROUPS-BETAS",
                "the betas are not those of the config",
                tried=tried,
                expected=f"{betas}",
                got=f"{found}",
                fits=fits.get(tuple(found), ""),
                look="`betas=`.",
            )
        if group["lr"] != config.lr:
            raise Wrong(
                "GROUPS-LR",
                "the learning rate is not that of the config",
                tried=tried,
                expected=number(config.lr),
                got=number(group["lr"]),
                fits="that of the first update, in the warmup."
                if group["lr"] == config.lr / max(config.warmup_steps, 1)
                else "",
                look="`lr=`.",
                hides="the schedule sets it before each step, so nothing else would show.",
            )


def one_update(subject: Subject, draw: Draw) -> None:
    """The first update moves each weight by lr, and matrices by lr * weight_decay of themselves."""
    lr, decay = 0.005, 100.0  # decay so large that one update shows it: half of each weight
    trainer = _trainer(subject, draw, _config(draw, lr=lr, weight_decay=decay))
    before = trainer.method("weights")
    idx = draw.randint(0, V, (2, 9))
    trainer.method("train_step", [(idx[:, :-1].clone(), idx[:, 1:].clone())])
    after = trainer.method("weights")
    for name, w in before.items():
        pull = lr * (decay if w.dim() >= 2 else 0.0) * w
        moved = after[name] - w
        # a gradient near eps moves its weight less; the median weight has none so small
        if abs(_size(moved + pull, lr) - 1) < 0.05:
            continue
        facts = dict(
            tried=f"{name}, one update with lr {lr:g}, weight_decay {decay:g}",
            expected=f"steps of lr beside a decay of {number(lr * decay)} of each weight",
            got=f"without that decay, the median step is {number(_size(moved + pull, lr))} lr",
        )
        if abs(_size(moved, lr) - 1) < 0.05:
            raise Wrong(
                "GROUPS-L2",
                "the decay goes through the means",
                **facts,
                fits="weight_decay added to the gradient: all steps are lr, decay and all.",
                hides="weights with large gradients hardly decay.",
                look="the class of the optimizer: Adam or AdamW?",
            )
        raise Wrong(
            "GROUPS-NOT-ADAMW",
            "the update is not AdamW's",
            **facts,
            look="the class of the optimizer, and its options.",
        )


def _size(moved: Tensor, lr: float) -> float:
    return moved.abs().median().item() / lr


def _list_names(names: list[str]) -> str:
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return ", ".join(names[:2]) + more


SUITES = (
    Suite(
        "param-groups",
        (every_parameter, by_dimensions, settings, one_update, another_model, own_parameters),
        tested="every parameter is updated once by AdamW; matrices decay, gains do not; "
        "rate, betas and decay come from the config.",
        remember="a group without weight_decay gets AdamW's own, 0.01 if you set none.",
        next_step="print `trainer.describe()` for each preset: how much of a model decays?",
        loads=(DYNAMO,),
    ),
)
