"""The first weights of a sharded model, drawn a layer at a time: no rank ever holds all of them.

What it is: a GPT without weights (on torch's device "meta"), and a function that gives its shards
the values that `GPT(config)` would have, bit for bit, on any number of ranks. What it leaves out:
sharding itself (fsdp_trainer.py), and weights from a checkpoint.

`GPT(config)` draws twice, in order: every layer as it is made, and every layer again in
`_init_weights`. The same two passes are made here, and a matrix is let go as soon as it is drawn.
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.modules.module import register_module_module_registration_hook

from course_lib.checkpoints.saved_state import copy_parts
from course_lib.gpt import GPT, GPTConfig


def build_without_weights(config: GPTConfig) -> GPT:
    """`GPT(config)` with its matrices on "meta"; gains, biases and rotary tables have their values.

    The generator of the CPU ends where it would after all layers were made and before
    `_init_weights`, which is what `draw_shards` expects. At most one layer is held at a time.
    """

    def let_go(parent: nn.Module, name: str, layer: nn.Module | None) -> None:
        for key, param in layer._parameters.items() if layer is not None else ():
            if param is not None and param.dim() >= 2:
                layer._parameters[key] = nn.Parameter(param.to("meta"))

    hook = register_module_module_registration_hook(let_go)
    try:
        return GPT(config)
    finally:
        hook.remove()


def allocate_shards(model: nn.Module, device: torch.device | str) -> None:
    """Give each parameter of `model` that is on "meta" memory on `device`, in place, not its values.

    Of a DTensor only this rank's part. Parameters that are one stay one. No collective.
    """
    places, made = model.state_dict(keep_vars=True), {}
    for param in places.values():
        if param.is_meta and param not in made:
            local = torch.empty_like(param, device=device)
            made[param] = nn.Parameter(local, requires_grad=param.requires_grad)
    # the way to replace parameters of which FSDP notes the storage
    model.load_state_dict({name: made.get(p, p) for name, p in places.items()}, assign=True)


@torch.no_grad()
def draw_shards(model: nn.Module, plain: GPT) -> None:
    """Draw the matrices of `plain`, of `build_without_weights`, into the parameters of `model`.

    `model` has a parameter of each name of `plain`: a DTensor gets this rank's part, another tensor
    all; rows beyond those of `plain` become 0. At most one matrix is held beside them, on the host,
    and on the device of a DTensor for the time of a copy. `plain` stays without weights. All ranks
    draw the same, from the CPU's generator, so there is no collective.
    """
    targets = dict(model.named_parameters(remove_duplicate=False))
    paths = {layer: path for path, layer in plain.named_modules()}

    def draw(layer: nn.Module) -> None:
        missing = {n: p for n, p in layer._parameters.items() if p is not None and p.is_meta}
        drawn = {n: nn.Parameter(torch.empty_like(p, device="cpu")) for n, p in missing.items()}
        layer._parameters.update(drawn)
        plain._init_weights(layer)
        for name, param in drawn.items():
            target = targets[f"{paths[layer]}.{name}"]
            more = target.shape[0] - param.shape[0]  # rows of a padded vocabulary
            copy_parts({"": F.pad(param, (0, 0, 0, more)) if more else param}, {"": target})
        layer._parameters.update(missing)

    plain.apply(draw)
