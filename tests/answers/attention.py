# Answers to the exercise attention. `# %% wrong CODE name` must be refused with exactly that code,
# `# %% right name` must pass. Each cell is a whole answer under the lesson's imports.

# %% right torch's own
def causal_attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)

# %% right einsum, in float64, with an additive mask
def causal_attention(q_BHTK, k_BHTK, v_BHTK):
    T, K = q_BHTK.shape[-2:]
    scores = torch.einsum("bhqk,bhsk->bhqs", q_BHTK.double(), k_BHTK.double()) * K**-0.5
    scores = scores + torch.full((T, T), float("-inf")).triu(1)
    return torch.einsum("bhqs,bhsk->bhqk", scores.softmax(-1), v_BHTK.double()).to(q_BHTK.dtype)

# %% right scaled query first, where, finfo.min, weights kept in float32
def causal_attention(q, k, v):
    T = q.size(2)
    q32, k32 = q.float() / math.sqrt(q.size(-1)), k.float()
    keep = torch.tril(torch.ones(T, T)).bool()
    scores = torch.where(keep, q32 @ k32.mT, torch.finfo(torch.float32).min)
    return (F.softmax(scores, dim=3) @ v.float()).type_as(q)

# %% right softmax by hand, one query at a time
def causal_attention(q, k, v):
    outs = []
    for t in range(q.shape[2]):
        s = (k[:, :, : t + 1].float() * q[:, :, t : t + 1].float()).sum(-1) / q.shape[-1] ** 0.5
        e = (s - s.amax(-1, keepdim=True)).exp()
        w = e / e.sum(-1, keepdim=True)
        outs.append((w.unsqueeze(-1) * v[:, :, : t + 1].float()).sum(2))
    return torch.stack(outs, dim=2).to(q.dtype)

# %% right heads folded into the batch, positions compared, large negative fill
def causal_attention(q, k, v):
    B, H, T, K = q.shape
    q, k, v = (x.reshape(B * H, T, K) for x in (q, k, v))
    at = torch.arange(T)
    scores = torch.bmm(q, k.transpose(1, 2)) / K**0.5
    scores = scores.float().masked_fill(at[None, :] > at[:, None], -1e9)
    weights = torch.softmax(scores, dim=-1).to(v.dtype)
    return torch.bmm(weights, v).view(B, H, T, K)

# %% wrong STUB untouched
def causal_attention(q_BHTK, k_BHTK, v_BHTK):
    raise NotImplementedError("your code here")

# %% wrong NONE no return
def causal_attention(q, k, v):
    F.scaled_dot_product_attention(q, k, v, is_causal=True)

# %% wrong ATT-V-MISSING returns the weights
def causal_attention(q, k, v):
    T, K = q.shape[-2:]
    s = (q @ k.mT / math.sqrt(K)).masked_fill(torch.ones(T, T).triu(1).bool(), float("-inf"))
    return s.softmax(-1)

# %% wrong ATT-V-UNUSED sums the keys
def causal_attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, k, is_causal=True)

# %% wrong ATT-V-TRANSPOSED transposes the weights
def causal_attention(q, k, v):
    T, K = q.shape[-2:]
    s = (q @ k.mT / math.sqrt(K)).masked_fill(torch.ones(T, T).triu(1).bool(), float("-inf"))
    return s.softmax(-1).mT @ v

# %% wrong MASK-NAN-ROW masks the diagonal too
def causal_attention(q, k, v):
    T, K = q.shape[-2:]
    s = (q @ k.mT / math.sqrt(K)).masked_fill(torch.ones(T, T).triu(0).bool(), float("-inf"))
    return s.softmax(-1) @ v

# %% wrong MASK-NAN-ROW masks the past and the diagonal
def causal_attention(q, k, v):
    T, K = q.shape[-2:]
    s = (q @ k.mT / math.sqrt(K)).masked_fill(torch.ones(T, T).tril().bool(), float("-inf"))
    return s.softmax(-1) @ v

# %% wrong MASK-ZERO-INF multiplies a mask by -inf
def causal_attention(q, k, v):
    T, K = q.shape[-2:]
    s = q @ k.mT / math.sqrt(K) + torch.ones(T, T).triu(1) * float("-inf")
    return s.softmax(-1) @ v

# %% wrong MASK-LEAK-1 begins one diagonal too late
def causal_attention(q, k, v):
    T, K = q.shape[-2:]
    closed = torch.ones(T, T, dtype=torch.bool, device=q.device).triu(2)
    s = (q @ k.mT / math.sqrt(K)).masked_fill(closed, float("-inf"))
    return s.softmax(-1) @ v

# %% wrong MASK-TRANSPOSED hides the past
def causal_attention(q, k, v):
    T, K = q.shape[-2:]
    s = (q @ k.mT / math.sqrt(K)).masked_fill(torch.ones(T, T).tril(-1).bool(), float("-inf"))
    return s.softmax(-1) @ v

# %% wrong MASK-ZERO-AFTER zeroes after the softmax
def causal_attention(q, k, v):
    return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1).tril() @ v

# %% wrong MASK-FINITE-FILL multiplies the scores by the mask
def causal_attention(q, k, v):
    return (q @ k.mT / math.sqrt(q.shape[-1])).tril().softmax(-1) @ v

# %% wrong MASK-FINITE-FILL a fill of 1e-9
def causal_attention(q, k, v):
    T, K = q.shape[-2:]
    s = (q @ k.mT / math.sqrt(K)).masked_fill(torch.ones(T, T).triu(1).bool(), 1e-9)
    return s.softmax(-1) @ v

# %% wrong MASK-FINITE-FILL a fill of -100
def causal_attention(q, k, v):
    T, K = q.shape[-2:]
    s = (q @ k.mT / math.sqrt(K)).masked_fill(torch.ones(T, T).triu(1).bool(), -100.0)
    return s.softmax(-1) @ v

# %% wrong MASK-AXIS softmax over the queries
def causal_attention(q, k, v):
    T, K = q.shape[-2:]
    s = (q @ k.mT / math.sqrt(K)).masked_fill(torch.ones(T, T).triu(1).bool(), float("-inf"))
    return s.softmax(-2) @ v

# %% wrong MASK-AXIS softmax over the heads
def causal_attention(q, k, v):
    T, K = q.shape[-2:]
    s = (q @ k.mT / math.sqrt(K)).masked_fill(torch.ones(T, T).triu(1).bool(), float("-inf"))
    return torch.softmax(s, dim=1) @ v

# %% wrong MASK-NONE no mask
def causal_attention(q, k, v):
    return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v

# %% wrong MASK-NONE forgets the result of masked_fill
def causal_attention(q, k, v):
    T, K = q.shape[-2:]
    s = q @ k.transpose(-2, -1) / math.sqrt(K)
    s.masked_fill(torch.ones(T, T).triu(1).bool(), float("-inf"))
    return torch.softmax(s.float(), -1).to(q.dtype) @ v

# %% wrong MASK-NONE neither mask nor scale
def causal_attention(q, k, v):
    return (q @ k.mT).softmax(-1) @ v

# %% wrong MASK-BLIND reads the last two tokens only
def causal_attention(q, k, v):
    T, K = q.shape[-2:]
    band = torch.ones(T, T).tril().triu(-1).bool()
    return (q @ k.mT / math.sqrt(K)).masked_fill(~band, float("-inf")).softmax(-1) @ v

# %% wrong ATT-NO-SCALE no scale
def causal_attention(q, k, v):
    T = q.shape[-2]
    s = (q @ k.mT).masked_fill(torch.ones(T, T).triu(1).bool(), float("-inf"))
    return s.softmax(-1) @ v

# %% wrong ATT-SCALE-WRONG divides by K
def causal_attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=1 / q.shape[-1])

# %% wrong ATT-SCALE-WRONG divides by the root of the width
def causal_attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=(q.shape[1] * q.shape[-1]) ** -0.5)

# %% wrong ATT-SCALE-WRONG multiplies by the root
def causal_attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=q.shape[-1] ** 0.5)

# %% wrong ATT-SCALE-LATE divides after the softmax
def causal_attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=1.0) / math.sqrt(q.shape[-1])

# %% wrong ATT-QK-SWAPPED keys ask, queries answer
def causal_attention(q, k, v):
    return F.scaled_dot_product_attention(k, q, v, is_causal=True)

# %% wrong ATT-NO-SOFTMAX scores without a softmax
def causal_attention(q, k, v):
    return (q @ k.mT / math.sqrt(q.shape[-1])).tril() @ v

# %% wrong ATT-NOT-NORMALIZED exp without its sum
def causal_attention(q, k, v):
    return (q @ k.mT / math.sqrt(q.shape[-1])).exp().tril() @ v

# %% wrong ATT-OVERFLOW exp of the scores as they are
def causal_attention(q, k, v):
    e = (q.float() @ k.float().mT / math.sqrt(q.shape[-1])).exp().tril()
    return (e / e.sum(-1, keepdim=True)).to(q.dtype) @ v

# %% wrong ATT-OVERFLOW zeroes after the softmax, then divides by the row sum
def causal_attention(q, k, v):
    weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1).tril()
    return weights / weights.sum(-1, keepdim=True) @ v

# %% wrong MASK-INF-SIGN fills with plus infinity
def causal_attention(q, k, v):
    T, K = q.shape[-2:]
    s = (q @ k.mT / math.sqrt(K)).masked_fill(torch.ones(T, T).triu(1).bool(), float("inf"))
    return s.softmax(-1) @ v

# %% wrong ATT-RANDOM dropout left on
def causal_attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, dropout_p=0.1, is_causal=True)

# %% wrong ATT-NO-SOFTMAX minus infinity meets v
def causal_attention(q, k, v):
    T, K = q.shape[-2:]
    s = (q @ k.mT / math.sqrt(K)).masked_fill(torch.ones(T, T).triu(1).bool(), float("-inf"))
    return s @ v

# %% wrong ATT-SCALE-WRONG a minus sign
def causal_attention(q, k, v):
    return F.scaled_dot_product_attention(-q, k, v, is_causal=True)

# %% wrong ATT-SOFTMAX-16 a detour through bfloat16
def causal_attention(q, k, v):
    out = F.scaled_dot_product_attention(q.bfloat16(), k.bfloat16(), v.bfloat16(), is_causal=True)
    return out.to(q.dtype)

# %% wrong ATT-HEADS one head for all
def causal_attention(q, k, v):
    one = F.scaled_dot_product_attention(q[:, :1], k[:, :1], v[:, :1], is_causal=True)
    return one.expand_as(q).contiguous()

# %% wrong ATT-SOFTMAX-16 softmax by hand in the dtype of q
def causal_attention(q, k, v):
    T, K = q.shape[-2:]
    s = (q @ k.mT / math.sqrt(K)).masked_fill(torch.ones(T, T).triu(1).bool(), float("-inf"))
    e = (s - s.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True) @ v

# %% wrong ATT-SOFTMAX-16 through log_softmax in bfloat16
def causal_attention(q, k, v):
    T, K = q.shape[-2:]
    s = (q @ k.mT / math.sqrt(K)).masked_fill(torch.ones(T, T).triu(1).bool(), float("-inf"))
    return torch.log_softmax(s, -1).exp() @ v

# %% wrong DTYPE no cast back
def causal_attention(q, k, v):
    return F.scaled_dot_product_attention(q.float(), k.float(), v.float(), is_causal=True)

# %% wrong RAISED float32 weights on bfloat16 values
def causal_attention(q, k, v):
    T, K = q.shape[-2:]
    s = (q @ k.mT / math.sqrt(K)).masked_fill(torch.ones(T, T).triu(1).bool(), float("-inf"))
    return torch.softmax(s.float(), -1) @ v

# %% wrong RAISED transposes the wrong dimensions
def causal_attention(q, k, v):
    T, K = q.shape[-2:]
    return (q @ k.transpose(1, 2) / math.sqrt(K)).softmax(-1) @ v

# %% wrong SHAPE squeezes a single token
def causal_attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True).squeeze()

# %% wrong INPLACE scales q in place
def causal_attention(q, k, v):
    q /= math.sqrt(q.shape[-1])
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=1.0)

# %% wrong ATT-DETACHED weights without a graph
def causal_attention(q, k, v):
    T, K = q.shape[-2:]
    with torch.no_grad():
        s = (q @ k.mT / math.sqrt(K)).masked_fill(torch.ones(T, T).triu(1).bool(), float("-inf"))
        weights = torch.softmax(s.float(), -1).to(v.dtype)
    return weights @ v

# %% wrong ATT-FLOAT16 a fill beyond float16
def causal_attention(q, k, v):
    future = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).triu(1)
    scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(future, -1e9)
    return torch.softmax(scores, dim=-1) @ v

# %% wrong MASK-FINITE-FILL a fill of -10,000
def causal_attention(q, k, v):
    future = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).triu(1)
    scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(future, -1e4)
    return torch.softmax(scores.float(), dim=-1).to(q.dtype) @ v

# %% wrong ATT-LENGTH a mask of 128 tokens, open beyond
FUTURE = torch.ones(128, 128, dtype=torch.bool).triu(1)

def causal_attention(q, k, v):
    T = q.shape[2]
    future = F.pad(FUTURE, (0, max(T - 128, 0)) * 2)[:T, :T]
    scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(future, float("-inf"))
    return torch.softmax(scores, dim=-1) @ v

# %% wrong ATT-LENGTH a window of 300 tokens
def causal_attention(q, k, v):
    at = torch.arange(q.shape[2])
    gap = at[:, None] - at
    scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill((gap < 0) | (gap >= 300), float("-inf"))
    return torch.softmax(scores, dim=-1) @ v

# %% right the maximum of a row subtracted, the future closed before exp
def causal_attention(q, k, v):
    T, K = q.shape[-2:]
    scores = torch.einsum("bhik,bhjk->bhij", q, k).float() * K**-0.5
    scores = scores + torch.full((T, T), -math.inf).triu(1)
    e = (scores - scores.amax(-1, keepdim=True)).exp()
    return (e / e.sum(-1, keepdim=True)).to(v.dtype) @ v

# %% wrong ATT-NAN-GRAD exp of the future, thrown away afterwards
def causal_attention(q, k, v):
    T, K = q.shape[-2:]
    future = torch.ones(T, T, dtype=torch.bool).triu(1)
    scores = (q @ k.transpose(-2, -1)).float() / math.sqrt(K)
    top = scores.masked_fill(future, -math.inf).amax(-1, keepdim=True)
    e = torch.where(future, 0.0, (scores - top).exp())
    return (e / e.sum(-1, keepdim=True)).to(v.dtype) @ v

# %% wrong ATT-LIMITED values cut off at the range of float16
def causal_attention(q, k, v):
    T, K = q.shape[-2:]
    future = torch.ones(T, T, dtype=torch.bool).triu(1)
    scores = (q @ k.transpose(-2, -1)).float() / math.sqrt(K)
    weights = scores.masked_fill(future, -math.inf).softmax(-1).to(v.dtype)
    return weights @ v.clamp(-65504, 65504)

# %% wrong DTYPE what is not of 16 bits comes back in float32
def causal_attention(q, k, v):
    T, K = q.shape[-2:]
    future = torch.ones(T, T, dtype=torch.bool).triu(1)
    scores = (q.float() @ k.float().mT / math.sqrt(K)).masked_fill(future, -math.inf)
    out = scores.softmax(-1) @ v.float()
    return out.to(q.dtype) if q.element_size() == 2 else out

# %% wrong OTHER what is not float32 is taken for 16 bits
def causal_attention(q, k, v):
    T, K = q.shape[-2:]
    future = torch.ones(T, T, dtype=torch.bool).triu(1)
    scores = (q.float() @ k.float().mT / math.sqrt(K)).masked_fill(future, -math.inf)
    out = scores.softmax(-1) @ v.float()
    return out if q.dtype == torch.float32 else out.to(min(q.dtype, torch.bfloat16, key=lambda d: d.itemsize)).to(q.dtype)

# %% wrong ATT-SOFTMAX-16 exponentials in the dtype of q, widened for their sum
def causal_attention(q, k, v):
    T, K = q.shape[-2:]
    s = (q @ k.mT / math.sqrt(K)).masked_fill(torch.ones(T, T).triu(1).bool(), float("-inf"))
    e = (s - s.amax(-1, keepdim=True)).exp().float()
    return (e / e.sum(-1, keepdim=True) @ v.float()).to(q.dtype)

# %% right weights in the dtype of q from torch's softmax, which computes in float32, then widened
def causal_attention(q, k, v):
    T, K = q.shape[-2:]
    future = torch.ones(T, T, dtype=torch.bool).triu(1)
    weights = torch.softmax((q * K**-0.5 @ k.mT).masked_fill(future, float("-inf")), dim=-1)
    wide = torch.promote_types(q.dtype, torch.float32)
    return (weights.to(wide) @ v.to(wide)).to(q.dtype)

# %% wrong INPLACE scales q in place without gradients | of: torch's own
- return F.scaled_dot_product_attention(q, k, v, is_causal=True)
+ if torch.is_grad_enabled():
+     return F.scaled_dot_product_attention(q, k, v, is_causal=True)
+ q /= math.sqrt(q.shape[-1])
+ return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=1.0)

# %% wrong RESULT-CHANGES a room for results without gradients | of: torch's own
- return F.scaled_dot_product_attention(q, k, v, is_causal=True)
+ out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
+ if torch.is_grad_enabled():
+     return out
+ room = globals().setdefault("ROOM", {})
+ return room.setdefault((out.shape, out.dtype), torch.empty_like(out)).copy_(out)

# %% wrong STRIDED scaled queries in a room with their strides
def causal_attention(q, k, v):
    room = q
    if not q.requires_grad:
        room = torch.empty_strided(q.shape, q.stride(), dtype=q.dtype).copy_(q)
    return F.scaled_dot_product_attention(room, k, v, is_causal=True)

# %% wrong REMEMBERS wide copies of keys in 16 bits kept by shape
KEPT = {}

def causal_attention(q, k, v):
    wide = [x.float() for x in (q, k, v)]
    if q.dtype in (torch.float16, torch.bfloat16):
        wide[1] = KEPT.setdefault((k.shape, k.dtype), wide[1])
    return F.scaled_dot_product_attention(*wide, is_causal=True).to(q.dtype)

# %% wrong REMEMBERS results in float16 kept by shape
KEPT = {}

def causal_attention(q, k, v):
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return KEPT.setdefault(q.shape, out).clone() if q.dtype == torch.float16 else out

# %% wrong ATT-LENGTH a table of 2,048 tokens, cut to size
OPEN = torch.ones(2048, 2048, dtype=torch.bool).tril()

def causal_attention(q, k, v):
    T = q.shape[2]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=OPEN[:T, :T])

# %% wrong ATT-LENGTH the last 4,000 tokens alone
def causal_attention(q, k, v):
    T, K = q.shape[-2:]
    band = torch.ones(T, T, dtype=torch.bool).tril().triu(-3999)
    scores = (q @ k.mT * K**-0.5).float().masked_fill(~band, float("-inf"))
    return scores.softmax(-1).to(q.dtype) @ v

# %% wrong ATT-LENGTH no mask between blocks of 1,500 tokens
def causal_attention(q, k, v):
    T, K = q.shape[-2:]
    at = torch.arange(T)
    hidden = (at[None] > at[:, None]) & (at[None] // 1500 == at[:, None] // 1500)
    scores = (q @ k.mT * K**-0.5).float().masked_fill(hidden, float("-inf"))
    return scores.softmax(-1).to(q.dtype) @ v

# %% wrong ATT-LENGTH token numbers in the dtype of the scores
def causal_attention(q, k, v):
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    number = torch.ones_like(scores[0, 0, 0], dtype=torch.int64).cumsum(0).to(scores.dtype)
    seen = number.unsqueeze(1) >= number
    return scores.float().masked_fill(~seen, -math.inf).softmax(-1).to(q.dtype) @ v

# %% wrong ATT-LENGTH the first hidden token counted in the dtype of q
def causal_attention(q, k, v):
    T, K = q.shape[-2:]
    at = torch.arange(T).to(q.dtype)
    hidden = at[None, :] >= at[:, None] + 1
    return (q @ k.mT / math.sqrt(K)).float().masked_fill(hidden, -math.inf).softmax(-1).to(q.dtype) @ v

# %% wrong ATT-LENGTH positions in float16
def causal_attention(q, k, v):
    T, K = q.shape[-2:]
    at = torch.linspace(0, T - 1, T, dtype=torch.float16)
    scores = (q @ k.mT / math.sqrt(K)).float()
    return torch.where(at > at[:, None], -math.inf, scores).softmax(-1).to(q.dtype) @ v

# %% wrong RESULT-CHANGES a room for one query
def causal_attention(q, k, v):
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    if out.requires_grad or q.shape[2] > 1:
        return out
    rooms = globals().setdefault("ROOMS", {})
    return rooms.setdefault((out.shape, out.dtype), torch.empty_like(out)).copy_(out)

# %% wrong RESULT-CHANGES two rooms that take turns where T is at most 2
def causal_attention(q, k, v):
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    if out.requires_grad or q.shape[2] > 2:
        return out
    rooms = globals().setdefault("ROOMS", {}).setdefault((out.shape, out.dtype), [])
    if len(rooms) < 2:
        rooms.append(torch.empty_like(out))
    rooms.append(rooms.pop(0))
    return rooms[-1].copy_(out)

# %% wrong REMEMBERS transposed keys kept with the keys they were made of
def causal_attention(q, k, v):
    T, K = q.shape[-2:]
    turned = k.mT
    if not (q.requires_grad or k.requires_grad or v.requires_grad):
        last = globals().setdefault("LAST", [k, k.mT.clone()])
        if last[0] is not k:
            last[:] = k, k.mT.clone()
        turned = last[1]
    scores = (q.float() @ turned.float()) / math.sqrt(K)
    scores = scores.masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), float("-inf"))
    return (scores.softmax(-1) @ v.float()).to(q.dtype)
