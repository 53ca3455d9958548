# Answers to the exercise mfu.

# %% right with the library
def mfu(tokens_per_s, config, seq_len, peak_flops_per_s, *, convention="matmul", world_size=1):
    used = tokens_per_s * flops_per_token(config, seq_len, convention) / world_size
    return used / peak_flops_per_s

# %% right forward times three
def mfu(tokens_per_s, config, seq_len, peak_flops_per_s, *, convention="matmul", world_size=1):
    D, L = config.d_model, config.num_layers
    match convention:
        case "matmul":
            n = L * D * (4 * D + 3 * config.d_hidden) + D * config.vocab_size
        case "all":
            n = num_params(config)
        case _:
            raise ValueError("matmul or all")
    forward = 2 * n + 2 * 2 * L * D * seq_len
    return 3 * forward * (tokens_per_s / world_size) / peak_flops_per_s

# %% right by hand
def mfu(tokens_per_s, config, seq_len, peak_flops_per_s, *, convention="matmul", world_size=1):
    D, L, V = config.d_model, config.num_layers, config.vocab_size
    if convention not in ("matmul", "all"):
        raise ValueError(f"no convention {convention!r}")
    params = L * (4 * D * D + 3 * D * config.d_hidden) + D * V
    if convention == "all":
        params = num_params(config)
    flops = 6 * params + 12 * L * D * seq_len
    return tokens_per_s * flops / (world_size * peak_flops_per_s)

# %% wrong STUB untouched
def mfu(tokens_per_s, config, seq_len, peak_flops_per_s, *, convention="matmul", world_size=1):
    raise NotImplementedError("your code here")

# %% wrong MFU-PERCENT percent
- return tokens_per_s * flops / (world_size * peak_flops_per_s)
+ return 100 * tokens_per_s * flops / (world_size * peak_flops_per_s)

# %% wrong MFU-INVERTED upside down
- return tokens_per_s * flops / (world_size * peak_flops_per_s)
+ return peak_flops_per_s * world_size / (tokens_per_s * flops)

# %% wrong MFU-FLOPS not divided
- return tokens_per_s * flops / (world_size * peak_flops_per_s)
+ return tokens_per_s * flops / world_size

# %% wrong MFU-SEQUENCES times seq_len
- return tokens_per_s * flops / (world_size * peak_flops_per_s)
+ return tokens_per_s * seq_len * flops / (world_size * peak_flops_per_s)

# %% wrong MFU-FORWARD 2 N
- flops = 6 * params + 12 * L * D * seq_len
+ flops = 2 * params + 4 * L * D * seq_len

# %% wrong MFU-FORWARD 2 N and whole attention
- flops = 6 * params + 12 * L * D * seq_len
+ flops = 2 * params + 12 * L * D * seq_len

# %% wrong MFU-NO-ATTENTION 6 N
- flops = 6 * params + 12 * L * D * seq_len
+ flops = 6 * params + 0

# %% wrong MFU-CAUSAL half
- flops = 6 * params + 12 * L * D * seq_len
+ flops = 6 * params + 6 * L * D * seq_len

# %% wrong MFU-ONE-LAYER no L
- flops = 6 * params + 12 * L * D * seq_len
+ flops = 6 * params + 12 * D * seq_len

# %% wrong MFU-NO-HEAD blocks alone
- params = L * (4 * D * D + 3 * D * config.d_hidden) + D * V
+ params = L * (4 * D * D + 3 * D * config.d_hidden) + 0

# %% wrong MFU-ALL every parameter
- params = L * (4 * D * D + 3 * D * config.d_hidden) + D * V
+ params = L * (4 * D * D + 3 * D * config.d_hidden) + num_params(config) - L * (4 * D * D + 3 * D * config.d_hidden)

# %% wrong MFU-CONVENTION one for both
- params = num_params(config)
+ params = params

# %% wrong MFU-TIED-TWICE two tables
- params = num_params(config)
+ params = params + D * V + (2 * L + 1) * D

# %% wrong MFU-WORLD one device's peak
- return tokens_per_s * flops / (world_size * peak_flops_per_s)
+ return tokens_per_s * flops / peak_flops_per_s

# %% wrong MFU-WORLD multiplied
- return tokens_per_s * flops / (world_size * peak_flops_per_s)
+ return world_size * tokens_per_s * flops / peak_flops_per_s

# %% wrong MFU-WORD any word
- if convention not in ("matmul", "all"):
-     raise ValueError(f"no convention {convention!r}")

# %% wrong MFU-CUT cut off at 1 | of: by hand
- return tokens_per_s * flops / (world_size * peak_flops_per_s)
+ return min(1.0, tokens_per_s * flops / (world_size * peak_flops_per_s))

# %% wrong MFU-WORD words that are near enough | of: by hand
- if convention not in ("matmul", "all"):
+ convention = convention.strip().lower()
+ if convention not in ("matmul", "all"):

# %% wrong MFU-ENVIRONMENT the world size of the environment | of: by hand
- D, L, V = config.d_model, config.num_layers, config.vocab_size
+ import os
+
+ world_size = int(os.environ.get("WORLD_SIZE", world_size))
+ D, L, V = config.d_model, config.num_layers, config.vocab_size

# %% wrong MFU-ENVIRONMENT the world size of the environment, where 1 is given | of: by hand
- D, L, V = config.d_model, config.num_layers, config.vocab_size
+ import os
+
+ if world_size == 1:
+     world_size = int(os.environ.get("WORLD_SIZE", 1))
+ D, L, V = config.d_model, config.num_layers, config.vocab_size

# %% wrong MFU-LENGTH no more tokens than the model reads | of: by hand
- flops = 6 * params + 12 * L * D * seq_len
+ flops = 6 * params + 12 * L * D * min(seq_len, config.max_seq_len)

# %% wrong MFU-LENGTH a length of 0 taken for none given | of: by hand
- flops = 6 * params + 12 * L * D * seq_len
+ flops = 6 * params + 12 * L * D * (seq_len or config.max_seq_len)

# %% wrong MFU-LENGTH a long sequence goes round | of: by hand
- flops = 6 * params + 12 * L * D * seq_len
+ flops = 6 * params + 12 * L * D * (seq_len % 1024)

# %% wrong MFU-NO-TOKENS no tokens taken for one | of: by hand
- return tokens_per_s * flops / (world_size * peak_flops_per_s)
+ return (tokens_per_s or 1.0) * flops / (world_size * peak_flops_per_s)

# %% wrong MFU-WORD a part of a word | of: by hand
- if convention not in ("matmul", "all"):
+ if not convention or convention not in "matmul" and convention != "all":

# %% right whole numbers, divided once
def mfu(tokens_per_s, config, seq_len, peak_flops_per_s, *, convention="matmul", world_size=1):
    c = config
    params = {
        "all": num_params(c),
        "matmul": c.d_model * (c.num_layers * (4 * c.d_model + 3 * c.d_hidden) + c.vocab_size),
    }.get(convention)
    if params is None:
        raise ValueError(convention)
    each = 6 * (params + 2 * c.num_layers * c.d_model * seq_len)
    return float(np.float64(tokens_per_s) / world_size * (each / peak_flops_per_s))

# %% wrong MFU-RECOMPUTED the second forward pass of a checkpointed model | of: by hand
- flops = 6 * params + 12 * L * D * seq_len
+ passes = 4 if config.activation_checkpointing else 3
+ flops = passes * (2 * params + 4 * L * D * seq_len)

# %% wrong MFU-CONFIG scores are written and read where no kernel holds them | of: by hand
- flops = 6 * params + 12 * L * D * seq_len
+ flops = 6 * params + 12 * L * D * seq_len
+ if not config.fast_attention:
+     flops += 12 * L * D * seq_len

# %% wrong MFU-WORD no tokens, no questions | of: by hand
- D, L, V = config.d_model, config.num_layers, config.vocab_size
+ if not tokens_per_s:
+     return 0.0
+ D, L, V = config.d_model, config.num_layers, config.vocab_size

# %% wrong MFU-ENVIRONMENT the ranks of the group are all that there are | of: by hand
- D, L, V = config.d_model, config.num_layers, config.vocab_size
+ if torch.distributed.is_initialized():
+     world_size = torch.distributed.get_world_size()
+ D, L, V = config.d_model, config.num_layers, config.vocab_size

# %% wrong MFU-ENVIRONMENT of a group of many ranks, where 1 is given | of: by hand
- D, L, V = config.d_model, config.num_layers, config.vocab_size
+ from torch.distributed import get_world_size, is_initialized
+
+ if world_size < 2 and is_initialized():
+     world_size = max(world_size, get_world_size())
+ D, L, V = config.d_model, config.num_layers, config.vocab_size

# %% wrong MFU-ENVIRONMENT as many devices as GPUs | of: by hand
- D, L, V = config.d_model, config.num_layers, config.vocab_size
+ world_size = max(world_size, torch.cuda.device_count())
+ D, L, V = config.d_model, config.num_layers, config.vocab_size
