"""The checks themselves, a suite for each exercise.

What is not here: what runs an answer (probes/ and `subject`), and what shows a verdict (lab/).
Begin with `rmsnorm`, a short suite, then `suite` and `report`. Each module has `SUITES`, a tuple of
`Suite`; `suite("rmsnorm")` imports only the module it needs.
"""

from importlib import import_module

from course_lib.checks.suite import Suite

EXERCISES = {
    "start": ("bytes",),
    "rmsnorm": ("rmsnorm",),
    "rope_tables": ("rope-tables",),
    "rope": ("rotate-half", "apply-rope"),
    "swiglu": ("swiglu",),
    "attention": ("attention",),
    "grouped": ("gqa",),
    "heads": ("attention-module",),
    "block": ("block-forward",),
    "gpt_init": ("init-weights",),
    "gpt": ("gpt-forward",),
    "gpt_flops": ("count-flops",),
    "sampling": ("sample",),
    "kv_cache": ("kv-cache",),
    "data": ("pretokenize",),
    "batches": ("get-batch",),
    "batch_shares": ("shard-batch",),
    "optimizer": ("adamw-step",),
    "optimizer_groups": ("param-groups",),
    "muon": ("muon-step",),
    "schedule": ("get-lr",),
    "train_step": ("train-step",),
    "resume": ("save-checkpoint",),
    "resume_load": ("load-checkpoint",),
    "measure": ("time-it",),
    "roofline": ("arithmetic-intensity",),
    "utilization": ("mfu",),
    "loss_scaling": ("grad-scaler",),
    "formats": ("quantize-memory",),
    "operations": ("count-ops",),
    "fused_rmsnorm": ("fused-rmsnorm",),
    "online_softmax": ("online-softmax",),
    "flash_forward": ("flash-forward",),
    "flash_backward": ("flash-backward",),
    "activations": ("activation-bytes",),
    "recompute": ("checkpoint-policy",),
    "chunked_loss": ("chunked-loss",),
    "ladder": ("ladder-rung",),
    "reduce_scatter": ("ring-reduce-scatter",),
    "all_gather": ("ring-all-gather",),
    "collective_cost": ("collective-cost",),
    "ddp_sync": ("ddp-sync",),
    "ddp_buckets": ("ddp-buckets",),
    "ddp_no_sync": ("ddp-no-sync",),
    "launch": ("init-distributed",),
    "hang": ("find-the-hang",),
    "zero": ("zero-memory",),
    "zero_step": ("zero1-step",),
    "fsdp_save": ("fsdp-save-checkpoint",),
    "fsdp_load": ("fsdp-load-resharded",),
    "sharding": ("mini-fsdp",),
    "fsdp_strategy": ("sharding-strategy",),
    "fsdp_policies": ("mixed-precision-policy", "fsdp-policy"),
}


def suite(exercise: str) -> Suite:
    """The suite of that exercise; ValueError lists the ids when there is none."""
    for module, exercises in EXERCISES.items():
        if exercise in exercises:
            suites = import_module(f"course_lib.checks.{module}").SUITES
            return next(found for found in suites if found.exercise == exercise)
    ids = ", ".join(i for exercises in EXERCISES.values() for i in exercises)
    raise ValueError(f"no exercise {exercise!r}; the exercises are {ids}")
