# Answers to the exercise rope-tables. `# %% wrong CODE name` must be refused with exactly that code,
# `# %% right name` must pass. Each cell is a whole answer under the lesson's imports.

# %% right step by step
def rope_tables(seq_len, head_dim, theta=10_000.0):
    if head_dim % 2 != 0:
        raise ValueError(f"expected an even head_dim, got {head_dim}")
    exponent = torch.arange(0, head_dim, 2).float() / head_dim
    speed = 1.0 / (theta**exponent)
    positions = torch.arange(seq_len).float()
    angle = positions[:, None] * speed[None, :]
    cos = torch.cat([angle.cos(), angle.cos()], dim=-1)
    sin = torch.cat([angle.sin(), angle.sin()], dim=-1)
    return cos, sin

# %% wrong DEFAULT-DTYPE speeds and angles in torch's default dtype
- exponent = torch.arange(0, head_dim, 2).float() / head_dim
+ exponent = torch.arange(0, head_dim, 2) / head_dim

  speed = 1.0 / (theta**exponent)
- positions = torch.arange(seq_len).float()
+ positions = torch.arange(seq_len).to(speed.dtype)

# %% wrong RESULT-CHANGES tables of one size in one memory
- return cos, sin
+ kept = globals().setdefault("KEPT", {})
+ room = kept.setdefault((seq_len, head_dim), torch.empty(2, seq_len, head_dim))
+ room[0], room[1] = cos, sin
+ return room[0], room[1]

# %% right complex numbers, taken apart
def rope_tables(seq_len, head_dim, theta=10_000.0):
    if head_dim & 1:
        raise ValueError("an odd head has no pairs")
    speed = theta ** -(torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
    angle = torch.outer(torch.arange(seq_len, dtype=torch.float32), speed)
    turn = torch.polar(torch.ones_like(angle), angle).repeat(1, 2)
    return turn.real, turn.imag

# %% right float64 with a cast at the end
def rope_tables(seq_len: int, head_dim: int, theta: float = 10_000.0) -> tuple[Tensor, Tensor]:
    pairs, odd = divmod(head_dim, 2)
    if odd:
        raise ValueError(f"head_dim is {head_dim}; make it even")
    i = torch.arange(pairs, dtype=torch.float64)
    t = torch.arange(seq_len, dtype=torch.float64)
    angle_TK = torch.einsum("t,i->ti", t, theta ** (-2 * i / head_dim)).tile(1, 2)
    return angle_TK.cos().float(), angle_TK.sin().float()

# %% right exponentials of logarithms
def rope_tables(seq_len, head_dim, theta=10_000.0):
    if head_dim % 2:
        raise ValueError("head_dim is odd")
    log_theta = torch.tensor(theta, dtype=torch.float32).log()
    speed = (-log_theta * torch.arange(0, head_dim, 2) / head_dim).exp()
    angle = (torch.arange(seq_len).unsqueeze(-1) * speed).repeat(1, 2)
    return [torch.cos(angle), torch.sin(angle)]

# %% right a column for every number, by an index of pairs
def rope_tables(seq_len, head_dim, theta=10_000.0):
    if head_dim % 2:
        raise ValueError("head_dim is odd")
    pair = torch.arange(head_dim).float() % (head_dim // 2)
    speed = float(theta) ** (-2.0 * pair / head_dim)
    angle = torch.arange(seq_len)[:, None] * speed
    return angle.cos(), angle.sin()

# %% wrong DEFAULT-DTYPE pairs as whole numbers
- pair = torch.arange(head_dim).float() % (head_dim // 2)
+ pair = torch.arange(head_dim) % (head_dim // 2)

# %% right a linspace without its end
def rope_tables(seq_len, head_dim, theta=10_000.0):
    if head_dim % 2 == 1:
        raise ValueError("head_dim is odd")
    half = head_dim // 2
    speed = theta ** torch.linspace(0, -1, half + 1, dtype=torch.float32)[:half]
    angle = torch.arange(seq_len, dtype=torch.float32).outer(speed)
    cos, sin = angle.new_empty(2, seq_len, head_dim)
    cos[:, :half] = cos[:, half:] = angle.cos()
    sin[:, :half] = sin[:, half:] = angle.sin()
    return cos, sin

# %% right Python's own numbers
def rope_tables(seq_len, head_dim, theta=10_000.0):
    from math import cos, sin

    if head_dim % 2:
        raise ValueError("head_dim is odd")
    speeds = [theta ** (-2 * i / head_dim) for i in range(head_dim // 2)] * 2
    return tuple(
        torch.tensor([[wave(t * s) for s in speeds] for t in range(seq_len)], dtype=torch.float32)
        for wave in (cos, sin)
    )

# %% wrong RESULT-CHANGES kept for the next call with the same arguments
@__import__("functools").cache
def rope_tables(seq_len, head_dim, theta=10_000.0):
    if head_dim % 2:
        raise ValueError("head_dim is odd")
    speed = theta ** (-torch.arange(0, head_dim, 2).float() / head_dim)
    angle = torch.outer(torch.arange(seq_len), speed)
    angle = torch.stack((angle, angle), dim=1).flatten(1)
    return angle.cos(), angle.sin()

# %% wrong STUB untouched
def rope_tables(seq_len, head_dim, theta=10_000.0):
    raise NotImplementedError("your code here")

# %% wrong NONE no return | of: step by step
- return cos, sin
+ cos, sin

# %% wrong ROPE-ONE-TENSOR stacked | of: step by step
- return cos, sin
+ return torch.stack((cos, sin))

# %% wrong ROPE-ONE-TENSOR cosines alone | of: step by step
- return cos, sin
+ return cos

# %% wrong TYPE a dict | of: step by step
- return cos, sin
+ return {"cos": cos, "sin": sin}

# %% wrong TYPE lists of lists | of: step by step
- return cos, sin
+ return cos.tolist(), sin.tolist()

# %% wrong ROPE-COUNT the angles too | of: step by step
- return cos, sin
+ return cos, sin, angle

# %% wrong ROPE-HALF-WIDTH one column per pair | of: step by step
- cos = torch.cat([angle.cos(), angle.cos()], dim=-1)
- sin = torch.cat([angle.sin(), angle.sin()], dim=-1)
+ cos, sin = angle.cos(), angle.sin()

# %% wrong ROPE-TRANSPOSED the outer product turned round | of: step by step
- angle = positions[:, None] * speed[None, :]
- cos = torch.cat([angle.cos(), angle.cos()], dim=-1)
- sin = torch.cat([angle.sin(), angle.sin()], dim=-1)
+ angle = torch.outer(speed, positions)
+ cos = torch.cat([angle.cos(), angle.cos()])
+ sin = torch.cat([angle.sin(), angle.sin()])

# %% wrong SHAPE the copies below one another | of: step by step
- cos = torch.cat([angle.cos(), angle.cos()], dim=-1)
- sin = torch.cat([angle.sin(), angle.sin()], dim=-1)
+ cos = torch.cat([angle.cos(), angle.cos()])
+ sin = torch.cat([angle.sin(), angle.sin()])

# %% wrong SHAPE ready for (B, H, T, K) | of: step by step
- return cos, sin
+ return cos[None, None], sin[None, None]

# %% wrong SHAPE always 256 positions | of: step by step
- positions = torch.arange(seq_len).float()
+ positions = torch.arange(256).float()

# %% wrong SHAPE one position too many | of: step by step
- positions = torch.arange(seq_len).float()
+ positions = torch.arange(seq_len + 1).float()

# %% wrong ROPE-HALF-WIDTH half the columns, read as K/2 pairs | of: step by step
- exponent = torch.arange(0, head_dim, 2).float() / head_dim
+ exponent = torch.arange(0, head_dim // 2, 2).float() / head_dim

# %% wrong ROPE-TABLES-SWAPPED sines first | of: step by step
- return cos, sin
+ return sin, cos

# %% wrong ROPE-ONE-TABLE cosines twice | of: step by step
- return cos, sin
+ return cos, cos

# %% wrong ROPE-ONE-TABLE sines twice | of: step by step
- return cos, sin
+ return sin, sin

# %% wrong ROPE-ONE-TABLE in one memory | of: step by step
- cos = torch.cat([angle.cos(), angle.cos()], dim=-1)
- sin = torch.cat([angle.sin(), angle.sin()], dim=-1)
- return cos, sin
+ both = torch.cat([angle, angle], dim=-1)
+ return both.cos_(), both.sin_()

# %% wrong ROPE-ANGLES no waves | of: step by step
- return cos, sin
+ return torch.cat([angle, angle], -1), torch.cat([angle, angle], -1)

# %% wrong ROPE-FROM-ONE positions from 1 | of: step by step
- positions = torch.arange(seq_len).float()
+ positions = torch.arange(1, seq_len + 1).float()

# %% wrong ROPE-POSITIONS from the end | of: step by step
- positions = torch.arange(seq_len).float()
+ positions = torch.arange(seq_len).float().flip(0)

# %% wrong ROPE-POSITIONS a linspace with its end | of: step by step
- positions = torch.arange(seq_len).float()
+ positions = torch.linspace(0, seq_len, seq_len)

# %% wrong ROPE-POSITIONS as shares of the text | of: step by step
- positions = torch.arange(seq_len).float()
+ positions = torch.arange(seq_len) / seq_len

# %% wrong ROPE-DEGREES degrees to radians | of: step by step
- angle = positions[:, None] * speed[None, :]
+ angle = torch.deg2rad(positions[:, None] * speed[None, :])

# %% wrong ROPE-DEGREES turns to radians | of: step by step
- angle = positions[:, None] * speed[None, :]
+ angle = 2 * torch.pi * positions[:, None] * speed[None, :]

# %% wrong ROPE-BACKWARDS negative angles | of: step by step
- angle = positions[:, None] * speed[None, :]
+ angle = -positions[:, None] * speed[None, :]

# %% wrong ROPE-BACKWARDS negative sines | of: step by step
- return cos, sin
+ return cos, -sin

# %% wrong ROPE-SIGN the minus of rotate_half in the sines | of: step by step
- sin = torch.cat([angle.sin(), angle.sin()], dim=-1)
+ sin = torch.cat([-angle.sin(), angle.sin()], dim=-1)

# %% wrong ROPE-INTERLEAVED neighbors share an angle | of: step by step
- cos = torch.cat([angle.cos(), angle.cos()], dim=-1)
- sin = torch.cat([angle.sin(), angle.sin()], dim=-1)
+ cos = angle.cos().repeat_interleave(2, dim=-1)
+ sin = angle.sin().repeat_interleave(2, dim=-1)

# %% wrong ROPE-INTERLEAVED stacked at the end | of: step by step
- cos = torch.cat([angle.cos(), angle.cos()], dim=-1)
- sin = torch.cat([angle.sin(), angle.sin()], dim=-1)
+ cos = torch.stack([angle.cos(), angle.cos()], dim=-1).flatten(1)
+ sin = torch.stack([angle.sin(), angle.sin()], dim=-1).flatten(1)

# %% wrong ROPE-COLUMNS the second half mirrored | of: step by step
- cos = torch.cat([angle.cos(), angle.cos()], dim=-1)
- sin = torch.cat([angle.sin(), angle.sin()], dim=-1)
+ cos = torch.cat([angle.cos(), angle.cos().flip(-1)], dim=-1)
+ sin = torch.cat([angle.sin(), angle.sin().flip(-1)], dim=-1)

# %% wrong ROPE-COLUMNS the second half empty | of: a linspace without its end
- cos, sin = angle.new_empty(2, seq_len, head_dim)
- cos[:, :half] = cos[:, half:] = angle.cos()
- sin[:, :half] = sin[:, half:] = angle.sin()
+ cos, sin = torch.zeros(seq_len, head_dim), torch.zeros(seq_len, head_dim)
+ cos[:, :half] = angle.cos()
+ sin[:, :half] = angle.sin()

# %% wrong ROPE-COLUMNS the second half unturned | of: a linspace without its end
- cos, sin = angle.new_empty(2, seq_len, head_dim)
- cos[:, :half] = cos[:, half:] = angle.cos()
- sin[:, :half] = sin[:, half:] = angle.sin()
+ cos, sin = torch.ones(seq_len, head_dim), torch.zeros(seq_len, head_dim)
+ cos[:, :half] = angle.cos()
+ sin[:, :half] = angle.sin()

# %% wrong ROPE-COLUMNS cosines beside sines | of: step by step
- return cos, sin
+ both = torch.cat([angle.cos(), angle.sin()], dim=-1)
+ return both, both

# %% wrong ROPE-EXPONENT i / K | of: step by step
- exponent = torch.arange(0, head_dim, 2).float() / head_dim
+ exponent = torch.arange(head_dim // 2).float() / head_dim

# %% wrong ROPE-EXPONENT 2i / (K/2) | of: step by step
- exponent = torch.arange(0, head_dim, 2).float() / head_dim
+ exponent = torch.arange(0, head_dim, 2).float() / (head_dim // 2)

# %% wrong ROPE-EXPONENT pairs from 1 | of: step by step
- exponent = torch.arange(0, head_dim, 2).float() / head_dim
+ exponent = torch.arange(2, head_dim + 1, 2).float() / head_dim

# %% wrong ROPE-EXPONENT odd numbers | of: step by step
- exponent = torch.arange(0, head_dim, 2).float() / head_dim
+ exponent = torch.arange(1, head_dim, 2).float() / head_dim

# %% wrong ROPE-EXPONENT faster and faster | of: step by step
- speed = 1.0 / (theta**exponent)
+ speed = theta**exponent

# %% wrong ROPE-EXPONENT a linspace with its end | of: a linspace without its end
- speed = theta ** torch.linspace(0, -1, half + 1, dtype=torch.float32)[:half]
+ speed = theta ** torch.linspace(0, -1, half)

# %% wrong ROPE-EXPONENT not divided by K | of: step by step
- exponent = torch.arange(0, head_dim, 2).float() / head_dim
+ exponent = torch.arange(0, head_dim, 2).float()

# %% wrong ROPE-EXPONENT whole division | of: step by step
- exponent = torch.arange(0, head_dim, 2).float() / head_dim
+ exponent = torch.arange(0, head_dim, 2).float() // head_dim

# %% wrong ROPE-EXPONENT the slowest pair first | of: step by step
- speed = 1.0 / (theta**exponent)
+ speed = (1.0 / (theta**exponent)).flip(0)

# %% wrong ROPE-EXPONENT K speeds | of: a column for every number, by an index of pairs
- pair = torch.arange(head_dim).float() % (head_dim // 2)
+ pair = torch.arange(head_dim).float()

# %% wrong ROPE-EXPONENT the power before the quotient | of: step by step
- speed = 1.0 / (theta**exponent)
+ speed = theta**-1 * exponent

# %% wrong ROPE-THETA always 10,000 | of: step by step
- speed = 1.0 / (theta**exponent)
+ speed = 1.0 / (10_000.0**exponent)

# %% wrong ROPE-THETA a default of 1,000 | of: step by step
- def rope_tables(seq_len, head_dim, theta=10_000.0):
+ def rope_tables(seq_len, head_dim, theta=1000.0):

# %% wrong RAISED no default | of: step by step
- def rope_tables(seq_len, head_dim, theta=10_000.0):
+ def rope_tables(seq_len, head_dim, theta):

# %% wrong RAISED other names of arguments | of: step by step
- def rope_tables(seq_len, head_dim, theta=10_000.0):
+ def rope_tables(T, head_dim, theta=10_000.0):
+     seq_len = T

# %% wrong RAISED one shape only | of: step by step
- angle = positions[:, None] * speed[None, :]
+ angle = positions.view(5, 1) * speed.view(1, 4)

# %% wrong OTHER right for heads of 64 alone | of: step by step
- exponent = torch.arange(0, head_dim, 2).float() / head_dim
+ exponent = torch.arange(0, head_dim, 2).float() / 64

# %% wrong OTHER the waves of the wave | of: step by step
- sin = torch.cat([angle.sin(), angle.sin()], dim=-1)
+ sin = cos.sin()

# %% wrong OTHER a tangent in place of a sine | of: step by step
- sin = torch.cat([angle.sin(), angle.sin()], dim=-1)
+ sin = torch.cat([angle.tan(), angle.tan()], dim=-1)

# %% wrong OTHER the sine from the cosine, without its sign | of: step by step
- sin = torch.cat([angle.sin(), angle.sin()], dim=-1)
+ sin = (1 - cos.square()).clamp(min=0).sqrt()

# %% wrong DTYPE float64 out | of: float64 with a cast at the end
- return angle_TK.cos().float(), angle_TK.sin().float()
+ return angle_TK.cos(), angle_TK.sin()

# %% wrong DTYPE sines in float64 | of: float64 with a cast at the end
- return angle_TK.cos().float(), angle_TK.sin().float()
+ return angle_TK.cos().float(), angle_TK.sin()

# %% wrong DTYPE bfloat16 out | of: step by step
- return cos, sin
+ return cos.bfloat16(), sin.bfloat16()

# %% wrong DTYPE a complex table | of: complex numbers, taken apart
- return turn.real, turn.imag
+ return turn, turn.conj()

# %% wrong ROPE-LOW-PRECISION everything in bfloat16 | of: complex numbers, taken apart
- speed = theta ** -(torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
- angle = torch.outer(torch.arange(seq_len, dtype=torch.float32), speed)
- turn = torch.polar(torch.ones_like(angle), angle).repeat(1, 2)
- return turn.real, turn.imag
+ speed = theta ** (-torch.arange(0, head_dim, 2, dtype=torch.bfloat16) / head_dim)
+ angle = torch.outer(torch.arange(seq_len, dtype=torch.bfloat16), speed).repeat(1, 2)
+ return angle.cos().float(), angle.sin().float()

# %% wrong ROPE-LOW-PRECISION positions in bfloat16 | of: step by step
- positions = torch.arange(seq_len).float()
+ positions = torch.arange(seq_len).bfloat16().float()

# %% wrong ROPE-LOW-PRECISION positions in float16 | of: step by step
- positions = torch.arange(seq_len).float()
+ positions = torch.arange(seq_len).half().float()

# %% wrong ROPE-LOW-PRECISION speeds in bfloat16 | of: step by step
- angle = positions[:, None] * speed[None, :]
+ angle = positions[:, None] * speed[None, :].bfloat16()

# %% wrong ROPE-LOW-PRECISION angles in float16 | of: step by step
- angle = positions[:, None] * speed[None, :]
+ angle = (positions[:, None] * speed[None, :]).half().float()

# %% wrong ROPE-LOW-PRECISION tables in bfloat16 and back | of: step by step
- return cos, sin
+ return cos.bfloat16().float(), sin.bfloat16().float()

# %% wrong TYPE numpy arrays | of: step by step
- return cos, sin
+ return cos.numpy(), sin.numpy()

# %% wrong ROPE-STALE-TABLES kept by T and K | of: step by step
- def rope_tables(seq_len, head_dim, theta=10_000.0):
-     if head_dim % 2 != 0:
-         raise ValueError(f"expected an even head_dim, got {head_dim}")
+ KEPT = {}
+
+ def rope_tables(seq_len, head_dim, theta=10_000.0):
+     if head_dim % 2 != 0:
+         raise ValueError(f"expected an even head_dim, got {head_dim}")
+     if (seq_len, head_dim) in KEPT:
+         return KEPT[seq_len, head_dim]

- return cos, sin
+ KEPT[seq_len, head_dim] = cos, sin
+ return cos, sin

# %% wrong ROPE-STALE-TABLES the first table for all texts that fit | of: step by step
- def rope_tables(seq_len, head_dim, theta=10_000.0):
-     if head_dim % 2 != 0:
-         raise ValueError(f"expected an even head_dim, got {head_dim}")
+ KEPT = {}
+
+ def rope_tables(seq_len, head_dim, theta=10_000.0):
+     if head_dim % 2 != 0:
+         raise ValueError(f"expected an even head_dim, got {head_dim}")
+     if len(KEPT.get(head_dim, ((),))[0]) >= seq_len:
+         return tuple(table[:seq_len] for table in KEPT[head_dim])

- return cos, sin
+ KEPT[head_dim] = cos, sin
+ return cos, sin

# %% wrong ROPE-ODD an odd width rounded up | of: step by step
- if head_dim % 2 != 0:
-     raise ValueError(f"expected an even head_dim, got {head_dim}")

# %% wrong ROPE-ODD an odd width cut to size | of: step by step
- if head_dim % 2 != 0:
-     raise ValueError(f"expected an even head_dim, got {head_dim}")

- return cos, sin
+ return cos[:, :head_dim], sin[:, :head_dim]

# %% wrong ROPE-ODD-ERROR an assertion | of: step by step
- if head_dim % 2 != 0:
-     raise ValueError(f"expected an even head_dim, got {head_dim}")
+ assert head_dim % 2 == 0, "head_dim is odd"

# %% wrong RAISED refuses an even width that is no multiple of 4 | of: step by step
- if head_dim % 2 != 0:
+ if head_dim % 4 != 0:

# %% wrong NAN a division by the pair | of: step by step
- speed = 1.0 / (theta**exponent)
+ speed = theta**exponent / exponent

# %% wrong ROPE-ODD returns nothing for an odd width | of: step by step
- if head_dim % 2 != 0:
-     raise ValueError(f"expected an even head_dim, got {head_dim}")
+ if head_dim % 2 != 0:
+     return None

# %% wrong RESULT-CHANGES tables kept and returned again | of: step by step
- def rope_tables(seq_len, head_dim, theta=10_000.0):
-     if head_dim % 2 != 0:
-         raise ValueError(f"expected an even head_dim, got {head_dim}")
+ KEPT = {}
+
+ def rope_tables(seq_len, head_dim, theta=10_000.0):
+     if head_dim % 2 != 0:
+         raise ValueError(f"expected an even head_dim, got {head_dim}")
+     if (seq_len, head_dim, theta) in KEPT:
+         return KEPT[seq_len, head_dim, theta]

- return cos, sin
+ KEPT[seq_len, head_dim, theta] = cos, sin
+ return cos, sin

# %% wrong RESULT-CHANGES the first rows of a longer table | of: step by step
- def rope_tables(seq_len, head_dim, theta=10_000.0):
-     if head_dim % 2 != 0:
-         raise ValueError(f"expected an even head_dim, got {head_dim}")
+ KEPT = {}
+
+ def rope_tables(seq_len, head_dim, theta=10_000.0):
+     if head_dim % 2 != 0:
+         raise ValueError(f"expected an even head_dim, got {head_dim}")
+     longest = KEPT.get((head_dim, theta), ((),))
+     if len(longest[0]) >= seq_len:
+         return tuple(table[:seq_len] for table in longest)

- return cos, sin
+ KEPT[head_dim, theta] = cos, sin
+ return cos, sin

# %% wrong DEFAULT-DTYPE positions in torch's default dtype
def rope_tables(seq_len, head_dim, theta=10_000.0):
    if head_dim % 2:
        raise ValueError("odd")
    speeds = torch.tensor([theta ** (-2 * i / head_dim) for i in range(head_dim // 2)], dtype=torch.float64)
    at = torch.arange(float(seq_len)).double()
    angles = torch.outer(at, speeds).float().repeat(1, 2)
    return angles.cos(), angles.sin()

# %% wrong DEFAULT-DTYPE positions counted in torch's default dtype
def rope_tables(seq_len, head_dim, theta=10_000.0):
    if head_dim % 2:
        raise ValueError("odd")
    pair = torch.arange(head_dim // 2, dtype=torch.float64)
    at = torch.ones(seq_len, 1).cumsum(0).double() - 1
    angles = (at * theta ** (-2 * pair / head_dim)).repeat(1, 2)
    return angles.cos().float(), angles.sin().float()

# %% wrong ROPE-ODD no positions, asked before the width | of: step by step
- if head_dim % 2 != 0:
-     raise ValueError(f"expected an even head_dim, got {head_dim}")
+ if seq_len == 0:
+     return torch.zeros(0, head_dim), torch.zeros(0, head_dim)
+ if head_dim % 2 != 0:
+     raise ValueError(f"expected an even head_dim, got {head_dim}")

# %% wrong ROPE-ODD one position, written down before the width is looked at | of: step by step
- if head_dim % 2 != 0:
-     raise ValueError(f"expected an even head_dim, got {head_dim}")
+ if seq_len == 1:
+     return torch.ones(1, head_dim), torch.zeros(1, head_dim)
+ if head_dim % 2 != 0:
+     raise ValueError(f"expected an even head_dim, got {head_dim}")

# %% wrong ROPE-LOW-PRECISION angles side by side from one product of matrices | of: step by step
- angle = positions[:, None] * speed[None, :]
- cos = torch.cat([angle.cos(), angle.cos()], dim=-1)
- sin = torch.cat([angle.sin(), angle.sin()], dim=-1)
+ angle = torch.matmul(positions[:, None], torch.cat([speed, speed])[None]).float()
+ cos, sin = angle.cos(), angle.sin()

# %% wrong ROPE-LOW-PRECISION a column times a row in two matrices | of: a linspace without its end
- angle = torch.arange(seq_len, dtype=torch.float32).outer(speed)
+ angle = torch.mm(torch.arange(seq_len, dtype=torch.float32).view(-1, 1), speed.view(1, -1)).float()

# %% wrong DTYPE a product of matrices, handed on in bfloat16 under autocast | of: step by step
- angle = positions[:, None] * speed[None, :]
+ angle = positions.view(-1, 1) @ speed.view(1, -1)

# %% right a product of matrices with autocast off
def rope_tables(seq_len, head_dim, theta=10_000.0):
    if head_dim % 2:
        raise ValueError("head_dim is odd")
    with torch.autocast("cpu", enabled=False):
        speed = theta ** -(torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
        angle = torch.arange(seq_len, dtype=torch.float32).view(-1, 1) @ speed.view(1, -1)
    return angle.cos().repeat(1, 2), angle.sin().repeat(1, 2)

# %% right einsum in float32
def rope_tables(seq_len, head_dim, theta=10_000.0):
    if head_dim % 2:
        raise ValueError("head_dim is odd")
    speed = 1.0 / theta ** (torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
    angle = torch.einsum("t,i->ti", torch.arange(seq_len, dtype=torch.float32), speed)
    angle = torch.cat((angle, angle), dim=-1)
    return angle.cos(), angle.sin()

# %% wrong SHAPE exponents by steps of a fraction | of: step by step
- exponent = torch.arange(0, head_dim, 2).float() / head_dim
+ exponent = torch.arange(0, 1, 2 / head_dim, dtype=torch.float64)

- return cos, sin
+ return cos.float(), sin.float()
