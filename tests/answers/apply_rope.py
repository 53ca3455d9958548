# Answers to the exercise apply-rope. `# %% wrong CODE name` must be refused with exactly that code,
# `# %% right name` must pass. Each cell is a whole answer under the lesson's imports; rotate_half is
# the library's where a cell does not define its own.

# %% right a loop over the two
def apply_rotary_pos_emb(q, k, cos, sin):
    return tuple((x * cos + rotate_half(x) * sin).type_as(x) for x in (q, k))

# %% right complex numbers in float64
def apply_rotary_pos_emb(q_BHTK, k_BHTK, cos_TK, sin_TK):
    half = q_BHTK.shape[-1] // 2
    turn = torch.complex(cos_TK[:, :half].double(), sin_TK[:, :half].double())

    def one(x):
        z = torch.complex(x[..., :half].double(), x[..., half:].double()) * turn
        return torch.cat((z.real, z.imag), dim=-1).to(x.dtype)

    return one(q_BHTK), one(k_BHTK)

# %% right tables cast first, unsqueezed by hand
def apply_rotary_pos_emb(q, k, cos, sin):
    def turn(x):
        return x * cos.to(x.dtype)[None, None] + rotate_half(x) * sin.to(x.dtype)[None, None]

    return turn(q), turn(k)

# %% right without rotate_half, einsum with a 2 by 2 matrix
def apply_rotary_pos_emb(q, k, cos, sin):
    K = q.shape[-1]
    c, s = cos[:, : K // 2], sin[:, : K // 2]
    turn = torch.stack((torch.stack((c, -s)), torch.stack((s, c))))  # (2, 2, T, K/2)

    def one(x):
        pair = x.float().unflatten(-1, (2, K // 2))
        return torch.einsum("ijtp,bhtjp->bhtip", turn, pair).flatten(-2).to(x.dtype)

    return one(q), one(k)

# %% right q and k in one go
def apply_rotary_pos_emb(q, k, cos, sin):
    both = torch.cat((q, k), dim=1)
    both = both * cos + rotate_half(both) * sin
    turned = both.split((q.shape[1], k.shape[1]), dim=1)
    return tuple(new.to(x.dtype) for new, x in zip(turned, (q, k)))

# %% wrong ROPE-KEY-HEADS parted in the middle
- turned = both.split((q.shape[1], k.shape[1]), dim=1)
+ turned = both.chunk(2, dim=1)

# %% wrong ROPE-KEY-HEADS stacked
- both = torch.cat((q, k), dim=1)
+ both = torch.stack((q, k))

- turned = both.split((q.shape[1], k.shape[1]), dim=1)
+ turned = both

# %% wrong NAN lengths restored by a division
- both = both * cos + rotate_half(both) * sin
+ length = both.norm(dim=-1, keepdim=True)
+ both = both * cos + rotate_half(both) * sin
+ both = both * (length / both.norm(dim=-1, keepdim=True))

# %% wrong NAN lengths restored, zeros put back
- both = both * cos + rotate_half(both) * sin
+ length = both.norm(dim=-1, keepdim=True)
+ both = both * cos + rotate_half(both) * sin
+ both = torch.where(length > 0, both * (length / both.norm(dim=-1, keepdim=True)), both)

# %% wrong RESULT-CHANGES a buffer for each shape
- both = both * cos + rotate_half(both) * sin
+ kept = globals().setdefault("KEPT", {})
+ both = both * cos + rotate_half(both) * sin
+ if not both.requires_grad:
+     both = kept.setdefault(both.shape, torch.empty_like(both)).copy_(both)

# %% wrong STUB untouched
def apply_rotary_pos_emb(q, k, cos, sin):
    raise NotImplementedError("your code here")

# %% wrong STUB rotate_half still open
def rotate_half(x):
    raise NotImplementedError("your code here")


def apply_rotary_pos_emb(q, k, cos, sin):
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin

# %% wrong NONE no return
def apply_rotary_pos_emb(q, k, cos, sin):
    q = q * cos + rotate_half(q) * sin
    k = k * cos + rotate_half(k) * sin

# %% wrong ROPE-ONE-TENSOR only q returned
def apply_rotary_pos_emb(q, k, cos, sin):
    return (q * cos + rotate_half(q) * sin).to(q.dtype)

# %% wrong ROPE-ONE-TENSOR stacked
def apply_rotary_pos_emb(q, k, cos, sin):
    return torch.stack((q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin))

# %% wrong ROPE-COUNT tables returned too
def apply_rotary_pos_emb(q, k, cos, sin):
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin, cos, sin

# %% wrong TYPE a dict
def apply_rotary_pos_emb(q, k, cos, sin):
    return {"q": q * cos + rotate_half(q) * sin, "k": k * cos + rotate_half(k) * sin}

# %% wrong ROPE-TABLES-SWAPPED sin first
def apply_rotary_pos_emb(q, k, cos, sin):
    q2 = q * sin + rotate_half(q) * cos
    k2 = k * sin + rotate_half(k) * cos
    return q2.to(q.dtype), k2.to(k.dtype)

# %% wrong ROPE-BACKWARDS minus
def apply_rotary_pos_emb(q, k, cos, sin):
    q2 = q * cos - rotate_half(q) * sin
    k2 = k * cos - rotate_half(k) * sin
    return q2.to(q.dtype), k2.to(k.dtype)

# %% wrong ROPE-BACKWARDS minus on the wrong half
def rotate_half(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((second, -first), dim=-1)


def apply_rotary_pos_emb(q, k, cos, sin):
    q2 = q * cos + rotate_half(q) * sin
    k2 = k * cos + rotate_half(k) * sin
    return q2.to(q.dtype), k2.to(k.dtype)

# %% wrong ROPE-Q-ONLY k left out
def apply_rotary_pos_emb(q, k, cos, sin):
    return (q * cos + rotate_half(q) * sin).to(q.dtype), k

# %% wrong ROPE-K-ONLY q left out
def apply_rotary_pos_emb(q, k, cos, sin):
    return q, (k * cos + rotate_half(k) * sin).to(k.dtype)

# %% wrong ROPE-IDENTITY results not returned
def apply_rotary_pos_emb(q, k, cos, sin):
    q2 = q * cos + rotate_half(q) * sin
    k2 = k * cos + rotate_half(k) * sin
    return q, k

# %% wrong ROPE-ORDER k first
def apply_rotary_pos_emb(q, k, cos, sin):
    q2 = q * cos + rotate_half(q) * sin
    k2 = k * cos + rotate_half(k) * sin
    return k2.to(k.dtype), q2.to(q.dtype)

# %% wrong ROPE-K-FROM-Q q overwritten and turned again
def apply_rotary_pos_emb(q, k, cos, sin):
    q = (q * cos + rotate_half(q) * sin).to(q.dtype)
    k = (q * cos + rotate_half(q) * sin).to(q.dtype)
    return q, k

# %% wrong ROPE-K-FROM-Q rotate_half of q in the second line
def apply_rotary_pos_emb(q, k, cos, sin):
    q2 = q * cos + rotate_half(q) * sin
    k2 = k * cos + rotate_half(q) * sin
    return q2.to(q.dtype), k2.to(k.dtype)

# %% wrong ROPE-K-FROM-Q rotate_half of the new q in the second line
def apply_rotary_pos_emb(q, k, cos, sin):
    q = (q * cos + rotate_half(q) * sin).to(q.dtype)
    k = (k * cos + rotate_half(q) * sin).to(q.dtype)
    return q, k

# %% wrong ROPE-K-FROM-Q returned twice
def apply_rotary_pos_emb(q, k, cos, sin):
    q2 = (q * cos + rotate_half(q) * sin).to(q.dtype)
    return q2, q2

# %% wrong ROPE-NO-HALF without rotate_half
def apply_rotary_pos_emb(q, k, cos, sin):
    return (q * cos + q * sin).to(q.dtype), (k * cos + k * sin).to(k.dtype)

# %% wrong ROPE-NO-COS no cos
def apply_rotary_pos_emb(q, k, cos, sin):
    return (q + rotate_half(q) * sin).to(q.dtype), (k + rotate_half(k) * sin).to(k.dtype)

# %% wrong ROPE-NO-SIN no sin
def apply_rotary_pos_emb(q, k, cos, sin):
    return (q * cos + rotate_half(q)).to(q.dtype), (k * cos + rotate_half(k)).to(k.dtype)

# %% wrong ROPE-NO-SIN cos alone
def apply_rotary_pos_emb(q, k, cos, sin):
    return (q * cos).to(q.dtype), (k * cos).to(k.dtype)

# %% wrong ROPE-HEADS tables unsqueezed at 1
def apply_rotary_pos_emb(q, k, cos, sin):
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return (q * cos + rotate_half(q) * sin).to(q.dtype), (k * cos + rotate_half(k) * sin).to(k.dtype)

# %% wrong ROPE-HEADS tables laid along the batch
def apply_rotary_pos_emb(q, k, cos, sin):
    cos, sin = cos[:, None, None, :], sin[:, None, None, :]
    return (q * cos + rotate_half(q) * sin).to(q.dtype), (k * cos + rotate_half(k) * sin).to(k.dtype)

# %% wrong SHAPE q transposed and not back
def apply_rotary_pos_emb(q, k, cos, sin):
    q, k = q.permute(0, 1, 3, 2), k.permute(0, 1, 3, 2)
    return q * cos.T, k * cos.T

# %% wrong ROPE-ONE-POSITION last row for all
def apply_rotary_pos_emb(q, k, cos, sin):
    cos, sin = cos[-1], sin[-1]
    return (q * cos + rotate_half(q) * sin).to(q.dtype), (k * cos + rotate_half(k) * sin).to(k.dtype)

# %% wrong ROPE-INTERLEAVED interleaved rotate_half, half-split tables
def rotate_half(x):
    return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)


def apply_rotary_pos_emb(q, k, cos, sin):
    return (q * cos + rotate_half(q) * sin).to(q.dtype), (k * cos + rotate_half(k) * sin).to(k.dtype)

# %% wrong ROPE-INTERLEAVED tables made interleaved
def apply_rotary_pos_emb(q, k, cos, sin):
    half = q.shape[-1] // 2
    cos, sin = cos[:, :half].repeat_interleave(2, -1), sin[:, :half].repeat_interleave(2, -1)
    return (q * cos + rotate_half(q) * sin).to(q.dtype), (k * cos + rotate_half(k) * sin).to(k.dtype)

# %% wrong ROPE-INTERLEAVED interleaved throughout
def apply_rotary_pos_emb(q, k, cos, sin):
    half = q.shape[-1] // 2
    turn = torch.complex(cos[:, :half], sin[:, :half])

    def one(x):
        z = torch.view_as_complex(x.float().unflatten(-1, (half, 2)).contiguous())
        return torch.view_as_real(z * turn).flatten(-2).to(x.dtype)

    return one(q), one(k)

# %% wrong ROPE-HALF rotate_half without a sign
def rotate_half(x):
    return x.roll(x.shape[-1] // 2, dims=-1)


def apply_rotary_pos_emb(q, k, cos, sin):
    return (q * cos + rotate_half(q) * sin).to(q.dtype), (k * cos + rotate_half(k) * sin).to(k.dtype)

# %% wrong ROPE-OWN-TABLES its own angles
def apply_rotary_pos_emb(q, k, cos, sin):
    T, K = q.shape[-2:]
    angle = torch.outer(torch.arange(T), 10_000.0 ** (-torch.arange(0, K, 2) / K))
    cos, sin = angle.cos().repeat(1, 2), angle.sin().repeat(1, 2)
    return (q * cos + rotate_half(q) * sin).to(q.dtype), (k * cos + rotate_half(k) * sin).to(k.dtype)

# %% wrong INPLACE writes into q
def apply_rotary_pos_emb(q, k, cos, sin):
    half = rotate_half(q) * sin
    q *= cos
    q += half
    return q, (k * cos + rotate_half(k) * sin).to(k.dtype)

# %% wrong DTYPE no cast back
def apply_rotary_pos_emb(q, k, cos, sin):
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin

# %% wrong DTYPE only q cast back
def apply_rotary_pos_emb(q, k, cos, sin):
    return (q * cos + rotate_half(q) * sin).to(q.dtype), k * cos + rotate_half(k) * sin

# %% wrong ROPE-SUMMED-FIRST both tables on both terms
def apply_rotary_pos_emb(q, k, cos, sin):
    return ((q + rotate_half(q)) * cos * sin), ((k + rotate_half(k)) * cos * sin)

# %% wrong OTHER divided by cos
def apply_rotary_pos_emb(q, k, cos, sin):
    return (q / cos + rotate_half(q) * sin).to(q.dtype), (k / cos + rotate_half(k) * sin).to(k.dtype)

# %% wrong RAISED a typo
def apply_rotary_pos_emb(q, k, cos, sin):
    return q * cos + rotate_halves(q) * sin, k * cos + rotate_halves(k) * sin

# %% wrong RAISED matrix product
def apply_rotary_pos_emb(q, k, cos, sin):
    return q @ cos + rotate_half(q) @ sin, k @ cos + rotate_half(k) @ sin

# %% right heads folded by reshape, the tables cast up
def apply_rotary_pos_emb(q, k, cos, sin):
    def turn(x):
        rows = x.reshape(-1, *x.shape[-2:]).float()
        return (rows * cos.float() + rotate_half(rows) * sin.float()).reshape(x.shape).to(x.dtype)

    return turn(q), turn(k)

# %% wrong STRIDED heads folded by view
def apply_rotary_pos_emb(q, k, cos, sin):
    def turn(x):
        rows = x.view(-1, *x.shape[-2:])
        return (rows * cos + rotate_half(rows) * sin).view(x.shape).to(x.dtype)

    return turn(q), turn(k)

# %% wrong DTYPE k in the dtype of q
def apply_rotary_pos_emb(q, k, cos, sin):
    q2, k2 = (x * cos + rotate_half(x) * sin for x in (q, k))
    return q2.to(q.dtype), k2.to(q.dtype)

# %% wrong ROPE-STALE-TABLES tables kept by their shape
KEPT = {}

def apply_rotary_pos_emb(q, k, cos, sin):
    cos, sin = KEPT.setdefault(cos.shape, (cos, sin))
    return tuple((x * cos + rotate_half(x) * sin).to(x.dtype) for x in (q, k))

# %% wrong ROPE-NO-GRAD the second term without a graph
def apply_rotary_pos_emb(q, k, cos, sin):
    with torch.no_grad():
        turned = [rotate_half(x) for x in (q, k)]
    return tuple((x * cos + y * sin).to(x.dtype) for x, y in zip((q, k), turned))

# %% right a tuple of a generator, one sequence and one head at a time
def apply_rotary_pos_emb(q, k, cos, sin):
    def turned(x):
        wide = torch.promote_types(x.dtype, cos.dtype)
        rows = [h.to(wide) * cos + rotate_half(h.to(wide)) * sin for b in x for h in b]
        return torch.stack(rows).reshape(x.shape).to(x.dtype)

    return tuple(turned(x) for x in (q, k))

# %% wrong TYPE a list of two
def apply_rotary_pos_emb(q, k, cos, sin):
    return [(x * cos + rotate_half(x) * sin).to(x.dtype) for x in (q, k)]

# %% wrong ROPE-LIMITED numbers cut off at the range of float16
def apply_rotary_pos_emb(q, k, cos, sin):
    a, b = ((x * cos + rotate_half(x) * sin).clamp(-65504, 65504).to(x.dtype) for x in (q, k))
    return a, b

# %% wrong SHAPE one sequence is enough
def apply_rotary_pos_emb(q, k, cos, sin):
    a, b = ((x * cos + rotate_half(x) * sin).to(x.dtype).squeeze(0) for x in (q, k))
    return a, b

# %% wrong INPLACE writes into q and k without gradients | of: a loop over the two
- return tuple((x * cos + rotate_half(x) * sin).type_as(x) for x in (q, k))
+ out = tuple((x * cos + rotate_half(x) * sin).type_as(x) for x in (q, k))
+ return out if torch.is_grad_enabled() else (q.copy_(out[0]), k.copy_(out[1]))

# %% wrong REMEMBERS tables in 16 bits kept by their shape
KEPT = {}

def apply_rotary_pos_emb(q, k, cos, sin):
    def turn(x):
        c, s = cos, sin
        if x.dtype != cos.dtype:
            c, s = KEPT.setdefault((cos.shape, x.dtype), (cos.to(x.dtype), sin.to(x.dtype)))
        return (x * c + rotate_half(x) * s).to(x.dtype)

    return turn(q), turn(k)

# %% wrong REMEMBERS wide copies of keys in float16 kept by their shape
KEPT = {}

def apply_rotary_pos_emb(q, k, cos, sin):
    keys = KEPT.setdefault(k.shape, k.float()) if k.dtype == torch.float16 else k
    q2, k2 = (x * cos + rotate_half(x) * sin for x in (q, keys))
    return q2.to(q.dtype), k2.to(k.dtype)

# %% wrong REMEMBERS results in bfloat16 kept by the shape of q
KEPT = {}

def apply_rotary_pos_emb(q, k, cos, sin):
    out = tuple((x * cos + rotate_half(x) * sin).to(x.dtype) for x in (q, k))
    if q.dtype == k.dtype == torch.bfloat16:
        out = KEPT.setdefault((q.shape, k.shape), out)
    return tuple(x.clone() for x in out)

# %% wrong STRIDED rooms with the strides of q and k
def apply_rotary_pos_emb(q, k, cos, sin):
    def turn(x):
        room = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype)
        return room.copy_(x * cos + rotate_half(x) * sin)

    return turn(q), turn(k)

# %% wrong STRIDED tables written over
def apply_rotary_pos_emb(q, k, cos, sin):
    room = torch.empty_strided(sin.shape, sin.stride(), dtype=sin.dtype).copy_(sin)
    return tuple((x * cos + rotate_half(x) * room).to(x.dtype) for x in (q, k))

# %% wrong REMEMBERS both tables cast once for each pair of addresses
CAST = {}

def apply_rotary_pos_emb(q, k, cos, sin):
    key = (cos.data_ptr(), sin.data_ptr(), cos.shape, cos.stride(), sin.stride(), q.dtype, k.dtype)
    if key not in CAST:  # with the tables themselves, so that nothing else gets their addresses
        CAST[key] = [(cos.to(x.dtype, copy=True), sin.to(x.dtype, copy=True)) for x in (q, k)], cos, sin
    pairs = zip((q, k), CAST[key][0])
    return tuple(x * c + rotate_half(x) * s for x, (c, s) in pairs)

# %% wrong REMEMBERS turns of the last tables, as long as they are the same objects
LAST = [None, None, None]

def apply_rotary_pos_emb(q, k, cos, sin):
    half = cos.shape[-1] // 2
    if LAST[0] is not cos or LAST[1] is not sin:
        LAST[:] = cos, sin, torch.complex(cos[:, :half].float(), sin[:, :half].float())

    def one(x):
        z = torch.complex(x[..., :half].float(), x[..., half:].float()) * LAST[2]
        return torch.cat((z.real, z.imag), dim=-1).to(x.dtype)

    return one(q), one(k)

# %% wrong RESULT-CHANGES a room for the k of one token
ROOM = {}

def apply_rotary_pos_emb(q, k, cos, sin):
    a, b = ((x * cos + rotate_half(x) * sin).to(x.dtype) for x in (q, k))
    if k.shape[-2] == 1 and not k.requires_grad:
        b = ROOM.setdefault((k.shape, k.dtype), torch.empty_like(k)).copy_(b)
    return a, b

# %% wrong RESULT-CHANGES rows of one long result for q and k of one token
LONG = {}

def apply_rotary_pos_emb(q, k, cos, sin):
    a, b = ((x * cos + rotate_half(x) * sin).to(x.dtype) for x in (q, k))
    if q.shape[-2] > 1 or q.requires_grad or k.requires_grad:
        return a, b
    key = (a.numel(), b.numel(), a.dtype, b.dtype)
    room = LONG.setdefault(key, (a.new_empty(3, a.numel()), b.new_empty(3, b.numel()), [0]))
    room[2][0] = at = (room[2][0] + 1) % 3
    return room[0][at].copy_(a.flatten()).view(a.shape), room[1][at].copy_(b.flatten()).view(b.shape)
