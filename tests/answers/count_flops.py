# Answers to the exercise count-flops.

# %% right per layer, forward times three
def flops_per_token(config, seq_len, convention="matmul"):
    D, F_, V = config.d_model, config.d_hidden, config.vocab_size
    projections = 2 * 4 * D * D
    scores_and_sum = 2 * 2 * D * seq_len
    mlp = 2 * 3 * D * F_
    forward = config.num_layers * (projections + scores_and_sum + mlp) + 2 * D * V
    match convention:
        case "matmul":
            return 3 * forward
        case "all":
            return 3 * (forward - 2 * D * V) + 6 * (
                (2 * config.num_layers + 1) * D + (1 if config.tie_embeddings else 2) * V * D)
    raise ValueError(convention)

# %% right from all parameters down
def flops_per_token(config, seq_len, convention="matmul"):
    if convention not in ("matmul", "all"):
        raise ValueError("convention: matmul or all")
    params = num_params(config)
    if convention == "matmul":
        params -= (2 * config.num_layers + 1) * config.d_model
        if not config.tie_embeddings:
            params -= config.vocab_size * config.d_model
    return 6 * params + 12 * config.num_layers * config.num_heads * config.head_dim * seq_len

# %% right by steps
def flops_per_token(config, seq_len, convention="matmul"):
    D, L = config.d_model, config.num_layers
    n = L * (4 * D * D + 3 * D * config.d_hidden) + D * config.vocab_size
    if convention == "all":
        n = num_params(config)
    elif convention != "matmul":
        raise ValueError(f"matmul or all, not {convention}")
    return 6 * n + 12 * L * D * seq_len

# %% wrong STUB untouched
def flops_per_token(config, seq_len, convention="matmul"):
    raise NotImplementedError("your code here")

# %% wrong NONE no return
- return 6 * n + 12 * L * D * seq_len
+ total = 6 * n + 12 * L * D * seq_len

# %% wrong TYPE a float
- return 6 * n + 12 * L * D * seq_len
+ return 6.0 * n + 12 * L * D * seq_len

# %% wrong FLOPS-FORWARD forward only
- return 6 * n + 12 * L * D * seq_len
+ return 2 * n + 4 * L * D * seq_len

# %% wrong FLOPS-FORWARD two per parameter
- return 6 * n + 12 * L * D * seq_len
+ return 2 * n + 12 * L * D * seq_len

# %% wrong FLOPS-BACKWARD backward only
- return 6 * n + 12 * L * D * seq_len
+ return 4 * n + 8 * L * D * seq_len

# %% wrong FLOPS-MACS multiply-adds
- return 6 * n + 12 * L * D * seq_len
+ return 3 * n + 6 * L * D * seq_len

# %% wrong FLOPS-NO-ATTENTION 6 N
- return 6 * n + 12 * L * D * seq_len
+ return 6 * n

# %% wrong FLOPS-CAUSAL-HALF half
- return 6 * n + 12 * L * D * seq_len
+ return 6 * n + 6 * L * D * seq_len

# %% wrong FLOPS-ATTENTION-FORWARD forward attention
- return 6 * n + 12 * L * D * seq_len
+ return 6 * n + 4 * L * D * seq_len

# %% wrong FLOPS-ATTENTION-SQUARE T squared
- return 6 * n + 12 * L * D * seq_len
+ return 6 * n + 12 * L * D * seq_len**2

# %% wrong FLOPS-ONE-LAYER attention of one layer
- return 6 * n + 12 * L * D * seq_len
+ return 6 * n + 12 * D * seq_len

# %% wrong FLOPS-ONE-LAYER one block
- n = L * (4 * D * D + 3 * D * config.d_hidden) + D * config.vocab_size
+ n = (4 * D * D + 3 * D * config.d_hidden) + D * config.vocab_size

# %% wrong FLOPS-HEADS one head
- return 6 * n + 12 * L * D * seq_len
+ return 6 * n + 12 * L * config.head_dim * seq_len

# %% wrong FLOPS-NO-HEAD no head
- n = L * (4 * D * D + 3 * D * config.d_hidden) + D * config.vocab_size
+ n = L * (4 * D * D + 3 * D * config.d_hidden)

# %% wrong FLOPS-NO-HEAD no head, no attention
- n = L * (4 * D * D + 3 * D * config.d_hidden) + D * config.vocab_size
+ n = L * (4 * D * D + 3 * D * config.d_hidden)

- return 6 * n + 12 * L * D * seq_len
+ return 6 * n

# %% wrong FLOPS-LOOKUP the embedding too
- n = L * (4 * D * D + 3 * D * config.d_hidden) + D * config.vocab_size
+ n = L * (4 * D * D + 3 * D * config.d_hidden) + 2 * D * config.vocab_size

# %% wrong FLOPS-LOOKUP every parameter
def flops_per_token(config, seq_len, convention="matmul"):
    D, L = config.d_model, config.num_layers
    n = L * (4 * D * D + 3 * D * config.d_hidden) + D * config.vocab_size
    n = num_params(config)
    if convention != "all" and convention != "matmul":
        raise ValueError(f"matmul or all, not {convention}")
    return 6 * n + 12 * L * D * seq_len

# %% wrong FLOPS-GAINS the gains
- n = L * (4 * D * D + 3 * D * config.d_hidden) + D * config.vocab_size
+ n = (2 * L + 1) * D + L * (4 * D * D + 3 * D * config.d_hidden) + D * config.vocab_size

# %% wrong FLOPS-TWO-MATRICES two matrices
- n = L * (4 * D * D + 3 * D * config.d_hidden) + D * config.vocab_size
+ n = L * (4 * D * D + 2 * D * config.d_hidden) + D * config.vocab_size

# %% wrong FLOPS-THREE-PROJECTIONS three projections
- n = L * (4 * D * D + 3 * D * config.d_hidden) + D * config.vocab_size
+ n = L * (3 * D * D + 3 * D * config.d_hidden) + D * config.vocab_size

# %% wrong FLOPS-FIXED-LENGTH 17 written in
- return 6 * n + 12 * L * D * seq_len
+ return 6 * n + 12 * L * D * 17

# %% wrong FLOPS-TIED no head when tied
- n = L * (4 * D * D + 3 * D * config.d_hidden) + D * config.vocab_size
+ n = L * (4 * D * D + 3 * D * config.d_hidden) + (0 if config.tie_embeddings else D * config.vocab_size)

# %% wrong FLOPS-CONVENTION ignores the convention
- n = num_params(config)
+ pass

# %% wrong FLOPS-TIED-TWICE tied twice
- n = num_params(config)
+ n += D * config.vocab_size + (2 * L + 1) * D

# %% wrong FLOPS-ALL-GAINS no gains
- n = num_params(config)
+ n += 0 if config.tie_embeddings else D * config.vocab_size

# %% wrong FLOPS-UNKNOWN any word
- elif convention != "matmul":
-     raise ValueError(f"matmul or all, not {convention}")

# %% wrong FLOPS-UNKNOWN KeyError
- raise ValueError(f"matmul or all, not {convention}")
+ {}[convention]

# %% wrong OTHER recomputation
- return 6 * n + 12 * L * D * seq_len
+ return 8 * n + 16 * L * D * seq_len

# %% wrong FLOPS-CLAMPED no more tokens than the model reads
def flops_per_token(config, seq_len, convention="matmul"):
    D, L = config.d_model, config.num_layers
    matmul = L * (4 * D * D + 3 * D * config.d_hidden) + D * config.vocab_size
    params = {"matmul": matmul, "all": num_params(config)}
    if convention not in params:
        raise ValueError(f"no convention {convention}")
    return 6 * params[convention] + 12 * L * D * min(seq_len, config.max_seq_len)

# %% wrong FLOPS-UNKNOWN words of which "matmul" is made | of: by steps
- elif convention != "matmul":
+ elif convention not in ("matmul"):

# %% wrong FLOPS-UNKNOWN the beginning of a word is enough | of: by steps
- if convention == "all":
+ if convention.startswith("all"):

# %% wrong FLOPS-UNKNOWN no word taken for the default | of: by steps
- if convention == "all":
+ convention = convention or "matmul"
+ if convention == "all":

# %% wrong FLOPS-EDGES a length of 0 taken for none given | of: by steps
- return 6 * n + 12 * L * D * seq_len
+ return 6 * n + 12 * L * D * (seq_len or config.max_seq_len)

# %% wrong FLOPS-EDGES a single token has nobody to attend to | of: by steps
- return 6 * n + 12 * L * D * seq_len
+ return 6 * n + 12 * L * D * (seq_len if seq_len > 1 else 0)

# %% wrong FLOPS-ROUNDED through a float | of: by steps
- return 6 * n + 12 * L * D * seq_len
+ return int(6.0 * n + 12.0 * L * D * seq_len)

# %% wrong FLOPS-ROUNDED integers of 64 bits | of: by steps
- return 6 * n + 12 * L * D * seq_len
+ return (6 * n + 12 * L * D * seq_len + 2**63) % 2**64 - 2**63

# %% right a table of both conventions, with whole numbers of Fractions
def flops_per_token(config, seq_len, convention="matmul"):
    from fractions import Fraction

    forward = Fraction(num_params(config))
    unused = {"all": 0, "matmul": (2 * config.num_layers + 1) * config.d_model}
    if convention not in unused:
        raise ValueError("the conventions are " + " and ".join(unused))
    forward -= unused[convention]
    if convention == "matmul" and not config.tie_embeddings:
        forward -= config.d_model * config.vocab_size
    attention = Fraction(2 * config.num_layers * config.d_model * seq_len)
    return int(3 * (2 * forward + 2 * attention))

# %% wrong FLOPS-ROUNDED the matrices in a tensor | of: by steps
- n = L * (4 * D * D + 3 * D * config.d_hidden) + D * config.vocab_size
+ sizes = torch.tensor([4 * L * D, 3 * L * config.d_hidden, config.vocab_size])
+ n = int((sizes * D).sum())

# %% wrong FLOPS-ROUNDED the head in float64 | of: by steps
- n = L * (4 * D * D + 3 * D * config.d_hidden) + D * config.vocab_size
+ n = L * (4 * D * D + 3 * D * config.d_hidden) + int(float(D) * config.vocab_size)

# %% wrong ENVIRONMENT shared by the ranks of the group | of: by steps
- return 6 * n + 12 * L * D * seq_len
+ if torch.distributed.is_initialized():
+     return (6 * n + 12 * L * D * seq_len) // torch.distributed.get_world_size()
+ return 6 * n + 12 * L * D * seq_len

# %% wrong ENVIRONMENT shared by the GPUs | of: by steps
- return 6 * n + 12 * L * D * seq_len
+ return (6 * n + 12 * L * D * seq_len) // (torch.cuda.device_count() or 1)
