"""What the name of a matrix-product kernel says: cuBLAS's and CUTLASS's, as profilers print them.

What it is: the parts of two families of names, in words. What it leaves out: every other kernel,
and names that libraries may change with any release; no maker promises them.

Sources: CUTLASS, media/docs/profiler.md, whose printed run gives a kernel's name and beside it what
each part stands for; NVIDIA's developer forum, threads 232209 (ampere_sgemm_64x64_tn) and 348958 (the
products that were sm90_xmma_gemm with CUDA 12.1 are nvjet_ with 12.8). What the parts of an nvjet_
name mean is not published; asked for xmma names, NVIDIA declined (TensorRT-LLM, issue 1541).
"""

import re

SCALARS = {
    "s": "float32 inputs and sums",
    "h": "float16 inputs and sums",
    "d": "float64 inputs and sums",
    "c": "complex64 inputs and sums",
    "z": "complex128 inputs and sums",
}
INPUTS = {"bf16": "bfloat16", "f16": "float16", "fp16": "float16", "tf32": "TF32"}
ACTIVATIONS = ("relu", "gelu", "sigmoid", "silu")
LAYOUTS = {"n": "by columns", "t": "by rows"}  # column after column is how BLAS counts


def decode(name: str) -> dict[str, str]:
    """The parts that `name` shows, in words by what they are; {} when it names no matrix product.

    Keys, each only where the name has it: "made for", "unit", "numbers", "instruction", "tile",
    "depth", "stages", "epilogue", "layout", "alignment". Tiles are M x N of the output. Of an nvjet_
    name, "maker" and at most "made for": nobody has published what its other parts mean.
    """
    name = name.strip().lower()
    if jet := re.search(r"(?<![a-z])nvjet_(?:sm(\d\d+)_)?", name):
        found = {"maker": "cuBLAS, by names it does not explain"}
        return found | ({"made for": _capability(jet[1])} if jet[1] else {})
    if not (product := re.search(r"(?<![a-z])([shdcz])(\d*)gemm", name)):
        return {}
    found = {}
    if made := re.search(r"volta|turing|ampere|hopper|(?:cutlass_|sm)(\d\d+)_", name):
        found["made for"] = _capability(made[1]) if made[1] else made[0]
    found |= _arithmetic(name, *product.groups())
    if tile := re.search(r"_(\d+x\d+)(?:_(\d+)x(\d+))?(?=_)", name):
        found["tile"] = tile[1]
        if tile[2]:
            found |= {"depth": f"{tile[2]} of K at a time", "stages": tile[3]}
    if staged := re.search(r"stages_(\d+)x(\d+)", name):  # cuBLAS writes them apart from the tile
        found |= {"depth": f"{staged[1]} of K at a time", "stages": staged[2]}
    parts = re.split(r"[^a-z0-9]+", name)
    fused = [part for part in parts if part in ACTIVATIONS]
    if fused:
        found["epilogue"] = f"a variant that can apply {fused[0]} before it writes"
    if layout := next((part for part in parts if part in ("nn", "nt", "tn", "tt")), None):
        a, b = (LAYOUTS[letter] for letter in layout)
        found["layout"] = f"{layout}: A lies {a}, B {b}"
    if align := re.search(r"align(\d+)", name):
        found["alignment"] = f"{align[1]} numbers at a time"
    return found


def _capability(digits: str) -> str:
    return f"compute capability {digits[:-1]}.{digits[-1]}"  # sm_100 is 10.0


def _arithmetic(name: str, letter: str, shape: str) -> dict[str, str]:
    """Which unit multiplies what: tensor cores show the shape of their instruction."""
    if not shape:
        return {"unit": "ordinary cores", "numbers": SCALARS[letter]}
    M, N, K = {"16816": (16, 8, 16), "1688": (16, 8, 8), "884": (8, 8, 4)}.get(shape, (0, 0, 0))
    kind = next((word for key, word in INPUTS.items() if f"_{key}_" in name), "")
    sums = {"s": "float32", "h": "float16", "d": "float64"}.get(letter, letter)
    return {
        "unit": "tensor cores",
        "numbers": f"{kind + ' inputs, ' if kind else ''}{sums} sums",
        "instruction": f"{M} x {N} x {K}" if M else shape,
    }
