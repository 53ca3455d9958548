"""Model FLOPs utilization: which share of a device's arithmetic a training step puts to use.

What it is: tokens per second, turned into a share of the peak by the formula of `flops.py`. What it
leaves out: where the rest went, which a profile says, and arithmetic that is done twice, as by
activation checkpointing: the model does not need it, so it does not count.

Source: Chowdhery et al. 2022 ("PaLM"), section 4.1 and appendix B.
"""

from course_lib.gpt import GPTConfig
from course_lib.measure.flops import flops_per_token


def mfu(
    tokens_per_s: float,
    config: GPTConfig,
    seq_len: int,
    peak_flops_per_s: float,
    *,
    convention: str = "matmul",
    world_size: int = 1,
) -> float:
    """Share of the peak that training uses: 0.4 is 40 percent.

    `tokens_per_s` is the rate of all `world_size` devices together, `peak_flops_per_s` the peak of
    one. A token costs 6 FLOPs per parameter that counts, forward and backward, plus
    12 * num_layers * d_model * seq_len for attention. What activation checkpointing computes a
    second time does not count. A share above 1 is not cut off: the rate, the peak or the count of
    FLOPs is wrong then.
    `convention` says which parameters count. "matmul": those of the matrices that every token is
    multiplied with (3 D F of each block's MLP and, where every head has keys of its own, 4 D D of
    its attention; D V in the head, tied or not). "all": every parameter. ValueError for another
    word.
    """
    per_token = flops_per_token(config, seq_len, convention)
    return tokens_per_s * per_token / (world_size * peak_flops_per_s)
