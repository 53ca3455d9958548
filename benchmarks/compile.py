"""A block of the course's model: operations one at a time, and what `torch.compile` leaves of them.

Eager operations are counted by `Operations`, without the sum that ends the pass. Compiled ones are
counted in the code that Inductor writes (TORCH_LOGS=output_code), in a process of its own with an empty
cache: kernels that it generated, and calls of libraries. On the CPU; counts alone, no times.

    python -m benchmarks.compile
"""

import os
import re
import subprocess
import sys
import tempfile

import torch

from benchmarks.record import record
from course_lib.gpt import GPTConfig, TransformerBlock, rope_tables
from course_lib.measure.operations import Operations

SHAPE = GPTConfig(max_seq_len=128, num_layers=1, num_heads=4, d_model=256, d_hidden=704)
PRODUCTS = ("mm", "bmm", "addmm")


def made() -> tuple:
    """A block, its input, and the rotary tables."""
    torch.manual_seed(0)
    hidden = torch.randn(4, 128, SHAPE.d_model, requires_grad=True)
    return TransformerBlock(SHAPE), hidden, *rope_tables(128, SHAPE.head_dim)


def eager() -> dict[str, int]:
    """Operations forward and backward by kind."""
    block, hidden, cos, sin = made()
    with Operations() as operations:
        out = block(hidden, cos, sin)
        grad = torch.ones_like(out)
        out.backward(grad)
    names = [o.name for o in operations.seen if o.name != "ones_like"]
    products = sum(name in PRODUCTS for name in names)
    attention = sum("attention" in name for name in names)
    return {
        "products": products,
        "attention": attention,
        "others": len(names) - products - attention,
    }


def child() -> None:
    """One compiled pass; its generated code goes to stderr."""
    torch.set_num_threads(1)
    block, hidden, cos, sin = made()
    fast = torch.compile(block)
    out = fast(hidden, cos, sin)
    out.backward(torch.ones_like(out))


def compiled() -> dict[str, int]:
    """Calls in the generated code by kind."""
    with tempfile.TemporaryDirectory() as cache:
        env = os.environ | {"TORCH_LOGS": "output_code", "TORCHINDUCTOR_CACHE_DIR": cache}
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.compile", "--child"],
            env=env,
            capture_output=True,
            text=True,
            check=True,
        )
    code = re.sub(r"^.*?\[__output_code\] ?", "", done.stderr, flags=re.M)
    calls = {
        "products": r"^ +extern_kernels\.(?:mm|bmm|addmm)\(",
        "attention": r"= torch\.ops\.aten\._scaled_dot_product\w+\.default\(",
        "others": r"^ +(?:cpp_fused|triton)_\w+[(.]",
    }
    return {kind: len(re.findall(call, code, re.M)) for kind, call in calls.items()}


def main() -> None:
    """Count, and write benchmarks/results/compile.json."""
    before, after = eager(), compiled()
    print(f"eager {before}\ncompiled {after}")
    record("compile", {"eager_calls": before, "compiled_calls": after})


if __name__ == "__main__":
    child() if "--child" in sys.argv else main()
