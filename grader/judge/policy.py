"""Ready-made answers: a flag for a person's eyes, never a verdict.

An answer that calls torch's own norm, where the exercise is to write one, has the right result. That
can be seen in the source, most of the time, and cannot be proven from it, so such an answer passes
with the flag POLICY.
"""

import ast

READY_MADE = {
    "rmsnorm": {"rms_norm", "RMSNorm"},
    "attention": {"scaled_dot_product_attention", "MultiheadAttention", "flex_attention",
                  "multi_head_attention_forward"},
    "adamw-step": {"AdamW", "Adam", "adamw"},
    "count-flops": {"FlopCounterMode", "flops_per_token_counted"},
}  # fmt: skip
"""By exercise, the names that do its work: as attributes (`F.rms_norm`) or imported."""


def find_flags(exercise: str, source: str) -> tuple[str, ...]:
    """("POLICY",) when the code uses something that does the exercise's work, else ()."""
    names = READY_MADE.get(exercise, set())
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    for node in ast.walk(tree):
        used = {node.attr} if isinstance(node, ast.Attribute) else set()
        if isinstance(node, ast.ImportFrom):
            used = {alias.name for alias in node.names}
        if used & names:
            return ("POLICY",)
    return ()
