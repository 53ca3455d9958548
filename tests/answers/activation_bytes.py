# Answers to the exercise activation-bytes.

# %% right tensor by tensor
def activation_bytes(config, batch, seq_len, *, dtype_bytes=4):
    tokens, width, hidden = batch * seq_len, config.d_model, config.d_hidden
    wide = tokens * width * dtype_bytes
    scores = batch * config.num_heads * seq_len**2
    sixteen = dtype_bytes == 2
    norm = [tokens * width * 4, tokens * width * 4, tokens * 4, width * 4 if sixteen else 0]
    attention = [wide] * 5
    if config.fast_attention:
        attention.append(batch * config.num_heads * seq_len * 4)
    else:
        attention += [scores * 4, scores * 2 if sixteen else 0, seq_len**2]
    mlp = [wide] + [tokens * hidden * dtype_bytes] * 4
    layers = config.num_layers
    return dict(norms=sum(norm) * (1 + 2 * layers), attention=sum(attention) * layers,
                mlp=sum(mlp) * layers, head=wide + tokens * config.vocab_size * 4)

# %% right per token
def activation_bytes(config, batch, seq_len, *, dtype_bytes=4):
    D, N = config.d_model, batch * seq_len
    out = {"head": N * (dtype_bytes * D + 4 * config.vocab_size), "norms": 0, "attention": 0, "mlp": 0}
    out["norms"] += N * (8 * D + 4) + 4 * D * (dtype_bytes < 4)
    for _ in range(config.num_layers):
        out["norms"] += 2 * (N * (8 * D + 4) + 4 * D * (dtype_bytes < 4))
        between = 4 * config.num_heads
        if not config.fast_attention:
            between = config.num_heads * seq_len * (dtype_bytes % 4 + 4)
            out["attention"] += seq_len * seq_len
        out["attention"] += N * (5 * dtype_bytes * D + between)
        out["mlp"] += N * dtype_bytes * (D + 4 * config.d_hidden)
    return out

# %% right in plain steps
def activation_bytes(config, batch, seq_len, *, dtype_bytes=4):
    D, F, L, V = config.d_model, config.d_hidden, config.num_layers, config.vocab_size
    N, H, T, s = batch * seq_len, config.num_heads, seq_len, dtype_bytes
    norm = 4 * (2 * N * D + N) + (4 * D if s < 4 else 0)
    attention = s * 5 * N * D
    if config.fast_attention:
        attention += 4 * N * H
    else:
        attention += (4 if s == 4 else 6) * batch * H * T * T + T * T
    mlp = s * (N * D + 4 * N * F)
    head = s * N * D + 4 * N * V
    return {"norms": (2 * L + 1) * norm, "attention": L * attention, "mlp": L * mlp, "head": head}

# %% wrong STUB untouched
def activation_bytes(config, batch, seq_len, *, dtype_bytes=4):
    raise NotImplementedError("your code here")

# %% wrong NONE no return
- return {"norms": (2 * L + 1) * norm, "attention": L * attention, "mlp": L * mlp, "head": head}
+ parts = {"norms": (2 * L + 1) * norm, "attention": L * attention, "mlp": L * mlp, "head": head}

# %% wrong ACT-PARTS the sum
- return {"norms": (2 * L + 1) * norm, "attention": L * attention, "mlp": L * mlp, "head": head}
+ return (2 * L + 1) * norm + L * attention + L * mlp + head

# %% wrong TYPE a division
- N, H, T, s = batch * seq_len, config.num_heads, seq_len, dtype_bytes
+ N, H, T, s = batch * seq_len / 1, config.num_heads, seq_len, dtype_bytes

# %% wrong ACT-NORM-FINAL two norms a block
- return {"norms": (2 * L + 1) * norm, "attention": L * attention, "mlp": L * mlp, "head": head}
+ return {"norms": 2 * L * norm, "attention": L * attention, "mlp": L * mlp, "head": head}

# %% wrong ACT-NORM-COPIES a norm keeps its input
- norm = 4 * (2 * N * D + N) + (4 * D if s < 4 else 0)
+ norm = 4 * (N * D + N) + (4 * D if s < 4 else 0)

# %% wrong ACT-NORM-RMS no inverse rms
- norm = 4 * (2 * N * D + N) + (4 * D if s < 4 else 0)
+ norm = 4 * 2 * N * D + (4 * D if s < 4 else 0)

# %% wrong ACT-TWICE a norm keeps its output
- norm = 4 * (2 * N * D + N) + (4 * D if s < 4 else 0)
+ norm = 4 * (3 * N * D + N) + (4 * D if s < 4 else 0)

# %% wrong ACT-LAYERS one block
- return {"norms": (2 * L + 1) * norm, "attention": L * attention, "mlp": L * mlp, "head": head}
+ return {"norms": 3 * norm, "attention": attention, "mlp": mlp, "head": head}

# %% wrong ACT-LAYERS one block of attention and MLP
- return {"norms": (2 * L + 1) * norm, "attention": L * attention, "mlp": L * mlp, "head": head}
+ return {"norms": (2 * L + 1) * norm, "attention": attention, "mlp": mlp, "head": head}

# %% wrong ACT-BATCH one sequence
- N, H, T, s = batch * seq_len, config.num_heads, seq_len, dtype_bytes
+ N, H, T, s = seq_len, config.num_heads, seq_len, dtype_bytes

# %% wrong ACT-ELEMENTS numbers
  head = s * N * D + 4 * N * V
+ norm, attention, mlp, head = norm // 4, attention // 4, mlp // 4, head // 4

# %% wrong ACT-PARAMETERS weights too
- mlp = s * (N * D + 4 * N * F)
+ mlp = s * (N * D + 4 * N * F + 3 * D * F)

# %% wrong ACT-PARAMETERS the head's weight
- head = s * N * D + 4 * N * V
+ head = s * (N * D + D * V) + 4 * N * V

# %% wrong ACT-INPUT-TWICE q, k and v each keep the input
- attention = s * 5 * N * D
+ attention = s * 7 * N * D

# %% wrong ACT-NO-OUTPUT no output
- attention = s * 5 * N * D
+ attention = s * 4 * N * D

# %% wrong ACT-NO-LSE no log-sum-exp
- attention += 4 * N * H
+ pass

# %% wrong ACT-SQUARE-FUSED T squared always
- if config.fast_attention:
+ if False:

# %% wrong ACT-SQUARE-FUSED the branches changed
- if config.fast_attention:
+ if not config.fast_attention:

# %% wrong ACT-NO-SQUARE never T squared
- if config.fast_attention:
+ if True:

# %% wrong ACT-ONE-HEAD one head
- attention += (4 if s == 4 else 6) * batch * H * T * T + T * T
+ attention += (4 if s == 4 else 6) * batch * T * T + T * T

# %% wrong ACT-NO-MASK no mask
- attention += (4 if s == 4 else 6) * batch * H * T * T + T * T
+ attention += (4 if s == 4 else 6) * batch * H * T * T

# %% wrong ACT-SCORES scores and softmax
- attention += (4 if s == 4 else 6) * batch * H * T * T + T * T
+ attention += (8 if s == 4 else 10) * batch * H * T * T + T * T

# %% wrong ACT-THREE-HIDDEN no silu
- mlp = s * (N * D + 4 * N * F)
+ mlp = s * (N * D + 3 * N * F)

# %% wrong ACT-THREE-HIDDEN gate and up
- mlp = s * (N * D + 4 * N * F)
+ mlp = s * (N * D + 2 * N * F)

# %% wrong ACT-INPUT-TWICE gate and up each keep the input
- mlp = s * (N * D + 4 * N * F)
+ mlp = s * (2 * N * D + 4 * N * F)

# %% wrong ACT-NO-LOGSOFTMAX no loss
- head = s * N * D + 4 * N * V
+ head = s * N * D

# %% wrong ACT-LOGITS-TWICE logits and log-softmax
- head = s * N * D + 4 * N * V
+ head = s * N * D + (s + 4) * N * V

# %% wrong ACT-LOGITS-16 logits in their dtype
- head = s * N * D + 4 * N * V
+ head = s * N * D + s * N * V

# %% wrong ACT-NORM-16 norms in their dtype
- norm = 4 * (2 * N * D + N) + (4 * D if s < 4 else 0)
+ norm = s * (2 * N * D + N) + (4 * D if s < 4 else 0)

# %% wrong ACT-NORM-GAIN no copy of the gain
- norm = 4 * (2 * N * D + N) + (4 * D if s < 4 else 0)
+ norm = 4 * (2 * N * D + N)

# %% wrong ACT-SOFTMAX-16 the softmax once
- attention += (4 if s == 4 else 6) * batch * H * T * T + T * T
+ attention += 4 * batch * H * T * T + T * T

# %% wrong ACT-DTYPE float32 always
- N, H, T, s = batch * seq_len, config.num_heads, seq_len, dtype_bytes
+ N, H, T, s = batch * seq_len, config.num_heads, seq_len, 4

# %% wrong RAISED a config without batch
- N, H, T, s = batch * seq_len, config.num_heads, seq_len, dtype_bytes
+ N, H, T, s = batch * seq_len, config.num_heads, config.seq_len, dtype_bytes

# %% wrong ACT-LSE-16 the log-sum-exp in 16 bits
- attention += 4 * N * H
+ attention += s * N * H

# %% wrong ACT-CHECKPOINTED the inputs of blocks, when config asks for that | of: in plain steps
- D, F, L, V = config.d_model, config.d_hidden, config.num_layers, config.vocab_size
+ D, F, L, V = config.d_model, config.d_hidden, config.num_layers, config.vocab_size
+ if config.activation_checkpointing:
+     L = 1

# %% wrong ACT-ROUNDED shares of the float32 bytes | of: in plain steps
- attention = s * 5 * N * D
+ attention = int(4 * 5 * N * D * (s / 4))

# %% wrong ACT-ROUNDED a mean length | of: in plain steps
- mlp = s * (N * D + 4 * N * F)
+ mlp = s * int(batch * (T / batch) * batch) * (D + 4 * F)

# %% wrong ACT-ROUNDED a product of torch | of: in plain steps
- head = s * N * D + 4 * N * V
+ head = int(torch.tensor([float(N), s * D + 4.0 * V], dtype=torch.float64).prod())

# %% wrong ACT-REMEMBERS once for each model
def activation_bytes(config, batch, seq_len, *, dtype_bytes=4):
    if (config, seq_len, dtype_bytes) not in SEEN:
        SEEN[config, seq_len, dtype_bytes] = counted(config, batch, seq_len, dtype_bytes)
    return dict(SEEN[config, seq_len, dtype_bytes])

SEEN = {}

def counted(config, batch, seq_len, s):
    D, F, L, V = config.d_model, config.d_hidden, config.num_layers, config.vocab_size
    N, H, T = batch * seq_len, config.num_heads, seq_len
    norm = 4 * (2 * N * D + N) + (4 * D if s < 4 else 0)
    attention = s * 5 * N * D
    attention += 4 * N * H if config.fast_attention else (4 if s == 4 else 6) * N * H * T + T * T
    mlp, head = s * (N * D + 4 * N * F), s * N * D + 4 * N * V
    return {"norms": (2 * L + 1) * norm, "attention": L * attention, "mlp": L * mlp, "head": head}

# %% wrong ACT-PARAMETERS a head of its own | of: in plain steps
- head = s * N * D + 4 * N * V
+ head = s * N * D + 4 * N * V + (0 if config.tie_embeddings else s * V * D)

# %% right a list of tensors, kept by all its arguments
class Kept(dict):
    def __missing__(self, key):
        config, batch, seq_len, size = key
        D, F, H = config.d_model, config.d_hidden, config.num_heads
        norm = [((2, batch, seq_len, D), 4), ((batch, seq_len, 1), 4)]
        attention = [((3, batch, seq_len, D), size), ((2, batch, seq_len, config.d_kv), size)]
        scores = (batch, H, seq_len, seq_len)
        if size != 4:
            norm += [((D,), 4)]
        if config.fast_attention:
            attention += [(scores[:-1], 4)]
        else:
            attention += [(scores, 4), (scores[2:], 1)] + [(scores, 2)] * (size == 2)
        mlp = [((batch, seq_len, D), size), ((4, batch, seq_len, F), size)]
        head = [((batch, seq_len, D), size), ((batch, seq_len, config.vocab_size), 4)]
        layers = range(config.num_layers)
        self[key] = found = {
            "norms": [norm] + [norm for _ in layers for _ in range(2)],
            "attention": [attention for _ in layers], "mlp": [mlp for _ in layers], "head": [head],
        }
        return found

TENSORS = Kept()

def activation_bytes(config, batch, seq_len, *, dtype_bytes=4):
    parts = TENSORS[config, batch, seq_len, dtype_bytes]
    return {name: sum(math.prod(shape) * each for part in found for shape, each in part)
            for name, found in parts.items()}

# %% wrong RAISED products in 64 bits | of: in plain steps
- N, H, T, s = batch * seq_len, config.num_heads, seq_len, dtype_bytes
+ N, H, T, s = torch.tensor(batch * seq_len), config.num_heads, seq_len, dtype_bytes

- return {"norms": (2 * L + 1) * norm, "attention": L * attention, "mlp": L * mlp, "head": head}
+ found = {"norms": (2 * L + 1) * norm, "attention": L * attention, "mlp": L * mlp, "head": head}
+ return {part: int(value) for part, value in found.items()}

# %% wrong OTHER a head that goes round | of: in plain steps
- return {"norms": (2 * L + 1) * norm, "attention": L * attention, "mlp": L * mlp, "head": head}
+ return {"norms": (2 * L + 1) * norm, "attention": L * attention, "mlp": L * mlp, "head": head % 2**63}
