# Answers to the exercise zero-memory.

# %% right one part after the other
def zero_memory(num_params, world_size, stage, *, param_bytes=2, grad_bytes=2, optimizer_bytes=12):
    check_stage(stage, world_size)
    shard = (num_params + world_size - 1) // world_size
    weights = gradients = optimizer = num_params
    if stage >= 1:
        optimizer = shard
    if stage >= 2:
        gradients = shard
    if stage == 3:
        weights = shard
    return {
        "weights": weights * param_bytes,
        "gradients": gradients * grad_bytes,
        "optimizer": optimizer * optimizer_bytes,
    }

# %% right a table of what each stage shards
def zero_memory(num_params: int, world_size: int, stage: int, *, param_bytes: int = 2,
                grad_bytes: int = 2, optimizer_bytes: int = 12) -> dict[str, int]:
    sharded = {0: "", 1: "o", 2: "og", 3: "ogw"}
    if stage not in sharded or world_size <= 0:
        raise ValueError(f"stage {stage} on {world_size} ranks")
    q, r = divmod(num_params, world_size)
    part = q + bool(r)
    sizes = {"weights": param_bytes, "gradients": grad_bytes, "optimizer": optimizer_bytes}
    return {k: b * (part if k[0] in sharded[stage] else num_params) for k, b in sizes.items()}

# %% right in plain steps
def zero_memory(num_params, world_size, stage, *, param_bytes=2, grad_bytes=2, optimizer_bytes=12):
    check_stage(stage, world_size)
    shard = -(-num_params // world_size)
    held = [shard if stage >= first else num_params for first in (3, 2, 1)]
    return {"weights": held[0] * param_bytes, "gradients": held[1] * grad_bytes, "optimizer": held[2] * optimizer_bytes}

# %% wrong STUB untouched
def zero_memory(num_params, world_size, stage, *, param_bytes=2, grad_bytes=2, optimizer_bytes=12):
    raise NotImplementedError("your code here")

# %% wrong ZERO-KEYS one total
- return {"weights": held[0] * param_bytes, "gradients": held[1] * grad_bytes, "optimizer": held[2] * optimizer_bytes}
+ return held[0] * param_bytes + held[1] * grad_bytes + held[2] * optimizer_bytes

# %% wrong ZERO-NO-MASTER two moments alone
- def zero_memory(num_params, world_size, stage, *, param_bytes=2, grad_bytes=2, optimizer_bytes=12):
+ def zero_memory(num_params, world_size, stage, *, param_bytes=2, grad_bytes=2, optimizer_bytes=8):

# %% wrong TYPE an even division
- shard = -(-num_params // world_size)
+ shard = num_params / world_size

# %% wrong ZERO-FLOOR rounded down
- shard = -(-num_params // world_size)
+ shard = num_params // world_size

# %% wrong ZERO-CEIL-BYTES bytes divided and rounded
def zero_memory(num_params, world_size, stage, *, param_bytes=2, grad_bytes=2, optimizer_bytes=12):
    check_stage(stage, world_size)
    whole = {"weights": num_params * param_bytes, "gradients": num_params * grad_bytes,
             "optimizer": num_params * optimizer_bytes}
    return {k: math.ceil(b / world_size) if stage >= first else b
            for (k, b), first in zip(whole.items(), (3, 2, 1))}

# %% wrong ZERO-SWAPPED stage 2 shards weights
- held = [shard if stage >= first else num_params for first in (3, 2, 1)]
+ held = [shard if stage >= first else num_params for first in (2, 3, 1)]

# %% wrong ZERO-NOT-TOO each stage shards one part
def zero_memory(num_params, world_size, stage, *, param_bytes=2, grad_bytes=2, optimizer_bytes=12):
    check_stage(stage, world_size)
    shard = math.ceil(num_params / world_size)
    return {
        "weights": (shard if stage == 3 else num_params) * param_bytes,
        "gradients": (shard if stage == 2 else num_params) * grad_bytes,
        "optimizer": (shard if stage == 1 else num_params) * optimizer_bytes,
    }

# %% wrong ZERO-ALL-AT-ONCE sixteen bytes over R from stage 1 on
def zero_memory(num_params, world_size, stage, *, param_bytes=2, grad_bytes=2, optimizer_bytes=12):
    check_stage(stage, world_size)
    n = math.ceil(num_params / world_size) if stage else num_params
    return {"weights": n * param_bytes, "gradients": n * grad_bytes, "optimizer": n * optimizer_bytes}

# %% wrong ZERO-STAGE-OFF a stage early
- held = [shard if stage >= first else num_params for first in (3, 2, 1)]
+ held = [shard if stage >= first else num_params for first in (2, 1, 0)]

# %% wrong ZERO-FIXED sizes by heart
- return {"weights": held[0] * param_bytes, "gradients": held[1] * grad_bytes, "optimizer": held[2] * optimizer_bytes}
+ return {"weights": held[0] * 2, "gradients": held[1] * 2, "optimizer": held[2] * 12}

# %% wrong ZERO-REFUSES any stage will do
- check_stage(stage, world_size)

# %% wrong ZERO-REFUSES one rank has nothing to check
- check_stage(stage, world_size)
+ if world_size > 1:
+     check_stage(stage, world_size)

# %% wrong ZERO-REFUSES stage 0 shards nothing, on no rank either
- check_stage(stage, world_size)
- shard = -(-num_params // world_size)
+ if stage:
+     check_stage(stage, world_size)
+ shard = -(-num_params // (world_size or 1))

# %% right what is left over, and numbers in a loop
def zero_memory(num_params, world_size, stage, *, param_bytes=2, grad_bytes=2, optimizer_bytes=12):
    check_stage(stage, world_size)
    held = {}
    for part, size, first in (
        ("optimizer", optimizer_bytes, 1), ("gradients", grad_bytes, 2), ("weights", param_bytes, 3)
    ):
        sharers = world_size if stage >= first else 1
        held[part] = (num_params + -num_params % sharers) // sharers * size
    return held

# %% right whole numbers by fractions
def zero_memory(num_params, world_size, stage, *, param_bytes=2, grad_bytes=2, optimizer_bytes=12):
    from fractions import Fraction
    check_stage(stage, world_size)
    shard = math.ceil(Fraction(num_params, world_size))
    return dict(weights=param_bytes * (shard if stage > 2 else num_params),
                gradients=grad_bytes * (shard if stage > 1 else num_params),
                optimizer=optimizer_bytes * (shard if stage > 0 else num_params))

# %% wrong ZERO-FLOAT a quotient in float64 | of: in plain steps
- shard = -(-num_params // world_size)
+ shard = math.ceil(num_params / world_size)

# %% wrong ZERO-FLOAT a float that is made an int | of: in plain steps
- shard = -(-num_params // world_size)
+ shard = int(num_params / world_size)
+ shard += shard * world_size < num_params

# %% wrong ZERO-FLOAT counts in float64
def zero_memory(num_params, world_size, stage, *, param_bytes=2, grad_bytes=2, optimizer_bytes=12):
    check_stage(stage, world_size)
    num_params = float(num_params)
    shard = -(-num_params // world_size)
    held = [shard if stage >= first else num_params for first in (3, 2, 1)]
    each = (param_bytes, grad_bytes, optimizer_bytes)
    return {k: int(n * b) for k, n, b in zip(("weights", "gradients", "optimizer"), held, each)}

# %% wrong ZERO-LITTLE-LEFT a remainder of one number is lost | of: in plain steps
- shard = -(-num_params // world_size)
+ shard = int(num_params / world_size + 0.99)

# %% wrong ZERO-FIXED no bytes taken for none said | of: in plain steps
- held = [shard if stage >= first else num_params for first in (3, 2, 1)]
+ held = [shard if stage >= first else num_params for first in (3, 2, 1)]
+ grad_bytes = grad_bytes or 2

# %% wrong ZERO-FIXED no state taken for none said | of: in plain steps
- held = [shard if stage >= first else num_params for first in (3, 2, 1)]
+ held = [shard if stage >= first else num_params for first in (3, 2, 1)]
+ optimizer_bytes = optimizer_bytes or 12

# %% wrong ZERO-PAD-WHOLE padded where nothing is cut | of: in plain steps
- held = [shard if stage >= first else num_params for first in (3, 2, 1)]
+ held = [shard if stage >= first else num_params for first in (3, 2, 1)]
+ if not stage:
+     held = [shard * world_size] * 3

# %% wrong ZERO-FIXED sizes by heart where nothing is cut | of: in plain steps
- held = [shard if stage >= first else num_params for first in (3, 2, 1)]
+ held = [shard if stage >= first else num_params for first in (3, 2, 1)]
+ if world_size == 1:
+     param_bytes, grad_bytes, optimizer_bytes = 2, 2, 12

# %% wrong ZERO-TOGETHER float32 weights are their own master copy | of: in plain steps
- held = [shard if stage >= first else num_params for first in (3, 2, 1)]
+ held = [shard if stage >= first else num_params for first in (3, 2, 1)]
+ if param_bytes == 4 and optimizer_bytes == 12:
+     optimizer_bytes = 8

# %% wrong ZERO-WRAPS bytes in an array of int64 | of: in plain steps
- return {"weights": held[0] * param_bytes, "gradients": held[1] * grad_bytes, "optimizer": held[2] * optimizer_bytes}
+ import numpy as np
+ with np.errstate(all="ignore"):
+     found = np.array(held).astype(np.int64) * np.array([param_bytes, grad_bytes, optimizer_bytes], dtype=np.int64)
+ return dict(zip(("weights", "gradients", "optimizer"), found.tolist()))

# %% wrong ZERO-WRAPS the optimizer's alone, by a product of tensors | of: in plain steps
- return {"weights": held[0] * param_bytes, "gradients": held[1] * grad_bytes, "optimizer": held[2] * optimizer_bytes}
+ optimizer = (torch.tensor(held[2]) * optimizer_bytes).item()
+ return {"weights": held[0] * param_bytes, "gradients": held[1] * grad_bytes, "optimizer": optimizer}

# %% wrong ZERO-WRAPS counts cut to 64 bits | of: in plain steps
- held = [shard if stage >= first else num_params for first in (3, 2, 1)]
+ held = [(shard if stage >= first else num_params) & 2**64 - 1 for first in (3, 2, 1)]

# %% wrong ENVIRONMENT the ranks of the group | of: in plain steps
- shard = -(-num_params // world_size)
+ if torch.distributed.is_initialized() and torch.distributed.get_world_size() > 1:
+     world_size = torch.distributed.get_world_size()
+ shard = -(-num_params // world_size)

# %% wrong ENVIRONMENT the ranks of the launcher | of: in plain steps
- shard = -(-num_params // world_size)
+ import os
+ shard = -(-num_params // int(os.environ.get("WORLD_SIZE", world_size)))
