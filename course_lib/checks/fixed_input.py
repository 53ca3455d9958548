"""An input that needs no gradient, as numbers that are read from a file: the weights get theirs.

What is here: `expect_weight_gradients`, which every suite of a module shares. What it leaves out:
whether the gradients are right, which the other checks of a suite say.
"""

import torch
from torch import Tensor

from course_lib.checks.report import Wrong, vector
from course_lib.checks.subject import Module


def expect_weight_gradients(module: Module, args: tuple, upstream: Tensor, *, tried: str) -> None:
    """The parameters of `module` get the same gradients where the input needs none; else `Wrong`
    FIXED-INPUT."""
    _, wanted = module.vjp(*args, upstream=upstream)
    found = module.probe("course_lib.probes.modules:weight_gradients", upstream, args)
    for name, right in wanted.items():
        got = found.get(name)
        if got is None or not torch.allclose(got, right, rtol=1e-4, atol=1e-5):
            raise Wrong(
                "FIXED-INPUT",
                f"{name} gets {'no' if got is None else 'another'} gradient",
                tried=f"{tried}, an input that needs no gradient",
                expected=f"that of an input that needs one: {vector(right.flatten(), 4)}",
                got="none" if got is None else vector(got.flatten(), 4),
                fits="`checkpoint` with use_reentrant=True, which looks at the inputs alone."
                if got is None
                else "",
                look="what the backward pass is made to depend on.",
            )
