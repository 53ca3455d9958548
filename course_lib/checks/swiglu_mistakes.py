"""Wrong hidden values of SwiGLU that learners write, for the checks of lesson 03 to name."""

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.checks.expect import Pattern


def hidden_mistakes(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> list[Pattern]:
    """Each taken through the down projection; x is the input of the MLP."""
    silu, right = F.silu, F.silu(gate) * up

    def pattern(
        code: str, finding: str, fits: str, look: str, hidden: Tensor, preset: str = ""
    ) -> Pattern:
        return Pattern(
            code=f"SWIGLU-{code}",
            value=hidden @ down,
            finding=finding,
            fits=fits,
            look=look,
            preset=preset and f"swiglu:{preset}",
        )

    which = "which projection goes through `F.silu`."
    return [
        pattern(
            "SWAPPED",
            "gate and up have changed places",
            "silu(up(x)) * gate(x).",
            which,
            silu(up) * gate,
        ),
        pattern(
            "NO-SILU",
            "the gate has no activation",
            "gate(x) * up(x), both linear.",
            which,
            gate * up,
            "bilinear",
        ),
        pattern(
            "BOTH",
            "both factors went through SiLU",
            "silu(gate(x)) * silu(up(x)).",
            which,
            silu(gate) * silu(up),
        ),
        pattern(
            "LATE",
            "SiLU acts on the product",
            "silu(gate(x) * up(x)).",
            "the parentheses around `F.silu`.",
            silu(gate * up),
        ),
        Pattern(
            code="SWIGLU-LATE",
            value=silu((gate * up) @ down),
            finding="SiLU acts after down",
            fits="silu(down(gate(x) * up(x))).",
            look="the parentheses around `F.silu`.",
        ),
        pattern(
            "SUM",
            "the two branches are added",
            "silu(gate(x)) + up(x).",
            "the operator between the two.",
            silu(gate) + up,
            "closed",
        ),
        pattern(
            "SUM",
            "the two branches are added",
            "silu(gate(x) + up(x)).",
            "the operator between the two.",
            silu(gate + up),
            "closed",
        ),
        pattern(
            "SUM",
            "the two branches are added",
            "gate(x) + up(x), without SiLU.",
            "the operator between the two.",
            gate + up,
            "closed",
        ),
        pattern(
            "ONE-BRANCH",
            "the up projection has no effect",
            "silu(gate(x)) alone.",
            "`self.up_proj`.",
            silu(gate),
        ),
        pattern("ONE-BRANCH", "the gate has no effect", "up(x) alone.", "`self.gate_proj`.", up),
        pattern(
            "ONE-BRANCH",
            "the gate has no effect",
            "silu(up(x)) alone.",
            "`self.gate_proj`.",
            silu(up),
        ),
        pattern(
            "ONE-BRANCH",
            "one projection serves as both",
            "silu(gate(x)) * gate(x).",
            "`self.up_proj`.",
            silu(gate) * gate,
        ),
        pattern(
            "ONE-BRANCH",
            "one projection serves as both",
            "silu(up(x)) * up(x).",
            "`self.gate_proj`.",
            silu(up) * up,
        ),
        pattern(
            "SIGMOID",
            "the gate is a sigmoid, not SiLU",
            "sigmoid(gate(x)) * up(x): GLU.",
            "SiLU is z * sigmoid(z): one factor more.",
            torch.sigmoid(gate) * up,
            "sigmoid",
        ),
        pattern(
            "GLU",
            "a sigmoid of up multiplies the gate",
            "gate(x) * sigmoid(up(x)).",
            "what `F.glu` does with the two halves.",
            gate * torch.sigmoid(up),
        ),
        pattern(
            "SOFTMAX",
            "the gates compete with each other",
            "softmax(gate(x)) * up(x).",
            "a gate opens by itself; nothing sums to 1.",
            torch.softmax(gate, -1) * up,
        ),
        pattern(
            "GELU",
            "the gate is GELU, not SiLU",
            "gelu(gate(x)) * up(x), called GEGLU.",
            "the name of the activation.",
            F.gelu(gate) * up,
            "gelu",
        ),
        pattern(
            "GELU",
            "the gate is GELU, not SiLU",
            "gelu(gate(x), tanh form) * up(x).",
            "the name of the activation.",
            F.gelu(gate, approximate="tanh") * up,
            "gelu",
        ),
        pattern(
            "GELU",
            "the gate is a form of GELU",
            "z * sigmoid(1.702 z), z = gate(x).",
            "the factor inside the sigmoid.",
            gate * torch.sigmoid(1.702 * gate) * up,
            "gelu",
        ),
        pattern(
            "RELU",
            "the gate is ReLU, not SiLU",
            "relu(gate(x)) * up(x), called ReGLU.",
            "the name of the activation.",
            F.relu(gate) * up,
            "relu",
        ),
        pattern(
            "TANH",
            "the gate is tanh, not SiLU",
            "tanh(gate(x)) * up(x).",
            "the name of the activation.",
            torch.tanh(gate) * up,
        ),
        Pattern(
            code="SWIGLU-RESIDUAL",
            value=x + right @ down,
            finding="x itself was added",
            fits="x + down(...): a residual inside the MLP.",
            hides="the block adds x already (lesson 06); here it would count twice.",
            look="the last line: only down(...) leaves.",
        ),
    ]
