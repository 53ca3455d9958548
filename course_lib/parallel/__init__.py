"""Training on many ranks, built by hand: `ddp`, then `zero`, then `mini_fsdp`.

What is not here: the collectives underneath (ranks/), and the trainers, which use torch's own
wrappers (training/). Begin with `ddp`.
"""
