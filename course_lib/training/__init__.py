"""The training programs `ddp_trainer` and `fsdp_trainer`, all that they can be told, and two optimizers.

What is not here: the model (gpt.py), batches (data/), files of checkpoints (checkpoints/), and the
wrappers that lessons build by hand (parallel/); the trainers use torch's.
Begin with `ddp_trainer`: the whole loop is `train_step` and `fit`.
"""
