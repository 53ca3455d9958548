# Answers to the exercise gqa. `# %% wrong CODE name` must be refused with exactly that code,
# `# %% right name` must pass. Each cell is a whole answer under the lesson's imports.

# %% right repeat_interleave
def grouped_attention(q, k, v):
    n = q.shape[1] // k.shape[1]
    k = k.repeat_interleave(n, dim=1)
    v = v.repeat_interleave(n, dim=1)
    return causal_attention(q, k, v)

# %% wrong RESULT-CHANGES a room for results of each shape
- return causal_attention(q, k, v)
+ out = causal_attention(q, k, v)
+ if out.requires_grad:
+     return out
+ room = globals().setdefault("ROOM", {})
+ return room.setdefault((out.shape, out.dtype), torch.empty_like(out)).copy_(out)

# %% right torch's own
def grouped_attention(q_BHTK, k_BGTK, v_BGTK):
    return F.scaled_dot_product_attention(q_BHTK, k_BGTK, v_BGTK, is_causal=True, enable_gqa=True)

# %% right expanded beside each head, then joined
def grouped_attention(q, k, v):
    B, G, T, K = k.shape
    H = q.shape[1]
    shared = [x[:, :, None].expand(B, G, H // G, T, K).reshape(B, H, T, K) for x in (k, v)]
    return causal_attention(q, *shared)

# %% right one group after the other
def grouped_attention(q, k, v):
    H, G = q.shape[1], k.shape[1]
    outs = []
    for g, qs in enumerate(q.split(H // G, dim=1)):
        one = slice(g, g + 1)
        outs.append(causal_attention(qs, k[:, one].expand_as(qs), v[:, one].expand_as(qs)))
    return torch.cat(outs, dim=1)

# %% right an index of heads, and the attention written out
def grouped_attention(q, k, v):
    H, T, K = q.shape[1:]
    owner = torch.arange(H, device=q.device) // (H // k.shape[1])
    scores = (q.double() @ k[:, owner].double().mT) / math.sqrt(K)
    scores = scores + torch.full((T, T), -math.inf).triu(1)
    return (scores.softmax(-1) @ v[:, owner].double()).to(q.dtype)

# %% right queries folded into groups
def grouped_attention(q, k, v):
    B, H, T, K = q.shape
    G = k.shape[1]
    q5 = q.reshape(B, G, H // G, T, K)
    return causal_attention(q5, k.unsqueeze(2), v.unsqueeze(2)).reshape(B, H, T, K)

# %% wrong STUB untouched
def grouped_attention(q_BHTK, k_BGTK, v_BGTK):
    raise NotImplementedError("your code here")

# %% wrong RAISED hands the heads on as they are
def grouped_attention(q, k, v):
    return causal_attention(q, k, v)

# %% wrong NONE no return | of: repeat_interleave
- return causal_attention(q, k, v)
+ causal_attention(q, k, v)

# %% wrong GQA-ORDER repeated as a block | of: repeat_interleave
- k = k.repeat_interleave(n, dim=1)
- v = v.repeat_interleave(n, dim=1)
+ k = k.repeat(1, n, 1, 1)
+ v = v.repeat(1, n, 1, 1)

# %% wrong GQA-ORDER concatenated | of: repeat_interleave
- k = k.repeat_interleave(n, dim=1)
- v = v.repeat_interleave(n, dim=1)
+ k = torch.cat([k] * n, dim=1)
+ v = torch.cat([v] * n, dim=1)

# %% wrong GQA-ORDER values as a block, keys by neighbors | of: repeat_interleave
- v = v.repeat_interleave(n, dim=1)
+ v = v.repeat(1, n, 1, 1)

# %% wrong GQA-KEYS keys as a block, values by neighbors | of: repeat_interleave
- k = k.repeat_interleave(n, dim=1)
+ k = k.repeat(1, n, 1, 1)

# %% wrong GQA-ORDER an index modulo G | of: an index of heads, and the attention written out
- owner = torch.arange(H, device=q.device) // (H // k.shape[1])
+ owner = torch.arange(H, device=q.device) % k.shape[1]

# %% wrong GQA-ORDER expanded in front of the heads | of: expanded beside each head, then joined
- shared = [x[:, :, None].expand(B, G, H // G, T, K).reshape(B, H, T, K) for x in (k, v)]
+ shared = [x[:, None].expand(B, H // G, G, T, K).reshape(B, H, T, K) for x in (k, v)]

# %% wrong GQA-ONE-HEAD the first head for all
def grouped_attention(q, k, v):
    return causal_attention(q, k[:, :1].expand_as(q), v[:, :1].expand_as(q))

# %% wrong GQA-ONE-HEAD the last head for all
def grouped_attention(q, k, v):
    return causal_attention(q, k[:, -1:].expand_as(q), v[:, -1:].expand_as(q))

# %% wrong GQA-AVERAGED the heads averaged
def grouped_attention(q, k, v):
    k, v = (x.mean(1, keepdim=True).expand_as(q) for x in (k, v))
    return causal_attention(q, k, v)

# %% wrong GQA-REVERSED groups in the other order | of: an index of heads, and the attention written out
- owner = torch.arange(H, device=q.device) // (H // k.shape[1])
+ owner = (torch.arange(H, device=q.device) // (H // k.shape[1])).flip(0)

# %% wrong GQA-MIXED joins tokens into heads | of: expanded beside each head, then joined
- shared = [x[:, :, None].expand(B, G, H // G, T, K).reshape(B, H, T, K) for x in (k, v)]
+ shared = [x.repeat_interleave(H // G, dim=2).reshape(B, H, T, K) for x in (k, v)]

# %% wrong GQA-FUTURE no mask | of: torch's own
- return F.scaled_dot_product_attention(q_BHTK, k_BGTK, v_BGTK, is_causal=True, enable_gqa=True)
+ return F.scaled_dot_product_attention(q_BHTK, k_BGTK, v_BGTK, enable_gqa=True)

# %% wrong GQA-NO-SCALE no scale | of: an index of heads, and the attention written out
- scores = (q.double() @ k[:, owner].double().mT) / math.sqrt(K)
+ scores = q.double() @ k[:, owner].double().mT

# %% wrong SHAPE the queries averaged instead
def grouped_attention(q, k, v):
    B, H, T, K = q.shape
    G = k.shape[1]
    return causal_attention(q.view(B, G, H // G, T, K).mean(2), k, v)

# %% wrong RAISED only two heads | of: repeat_interleave
- n = q.shape[1] // k.shape[1]
+ n = 3

# %% wrong DTYPE in float32 | of: repeat_interleave
- return causal_attention(q, k, v)
+ return causal_attention(q.float(), k.float(), v.float())

# %% wrong GQA-DETACHED copies without a graph | of: repeat_interleave
- v = v.repeat_interleave(n, dim=1)
+ v = v.detach().repeat_interleave(n, dim=1)

# %% wrong GQA-GRADIENT one reader alone teaches the shared head | of: repeat_interleave
- v = v.repeat_interleave(n, dim=1)
+ v = (v / n).repeat_interleave(n, dim=1)
+ v = v + (n - 1) * v.detach()

# %% wrong GQA-WEIGHTS softmax over the queries | of: an index of heads, and the attention written out
- return (scores.softmax(-1) @ v[:, owner].double()).to(q.dtype)
+ return (scores.softmax(-2).nan_to_num() @ v[:, owner].double()).to(q.dtype)

# %% right heads of queries unflattened, the mask as an addition
def grouped_attention(q, k, v):
    T, K = q.shape[-2:]
    wide = q.unflatten(1, (k.shape[1], -1)).float()
    scores = torch.einsum("bgsik,bgjk->bgsij", wide, k.float()) * K**-0.5
    scores = scores + torch.full((T, T), -math.inf).triu(1)
    return torch.einsum("bgsij,bgjk->bgsik", scores.softmax(-1), v.float()).flatten(1, 2).to(q.dtype)

# %% wrong MASK-FINITE-FILL a fill of -10,000 | of: an index of heads, and the attention written out
- scores = scores + torch.full((T, T), -math.inf).triu(1)
+ scores = scores + torch.full((T, T), -1e4).triu(1)

# %% wrong GQA-LENGTH a mask of 128 tokens | of: an index of heads, and the attention written out
- scores = scores + torch.full((T, T), -math.inf).triu(1)
+ mask = torch.zeros(T, T)
+ mask[:128, :128] = torch.full((128, 128), -math.inf).triu(1)[:T, :T]
+ scores = scores + mask

# %% wrong ATT-LIMITED values cut off at the range of float16 | of: repeat_interleave
- v = v.repeat_interleave(n, dim=1)
+ v = v.repeat_interleave(n, dim=1).clamp(-65504, 65504)

# %% wrong ATT-SOFTMAX-16 softmax by hand in the dtype of q
def grouped_attention(q, k, v):
    T, K = q.shape[-2:]
    n = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(n, dim=1) for x in (k, v))
    s = (q @ k.mT / math.sqrt(K)).masked_fill(torch.ones(T, T).triu(1).bool(), float("-inf"))
    e = (s - s.amax(-1, keepdim=True)).exp()
    return (e / e.sum(-1, keepdim=True)) @ v

# %% wrong ATT-SOFTMAX-16 where heads are shared, exponentials in the dtype of q, widened for their sum
def grouped_attention(q, k, v):
    H, G, (T, K) = q.shape[1], k.shape[1], q.shape[-2:]
    if H == G:
        return causal_attention(q, k, v)
    k, v = (x.repeat_interleave(H // G, dim=1) for x in (k, v))
    s = (q @ k.mT / math.sqrt(K)).masked_fill(torch.ones(T, T).triu(1).bool(), float("-inf"))
    e = (s - s.amax(-1, keepdim=True)).exp().float()
    return (e / e.sum(-1, keepdim=True) @ v.float()).to(q.dtype)

# %% wrong INPLACE writes into q without gradients | of: repeat_interleave
- return causal_attention(q, k, v)
+ out = causal_attention(q, k, v)
+ return out if torch.is_grad_enabled() else q.copy_(out)

# %% wrong STRIDED a copy of q with its strides | of: repeat_interleave
- return causal_attention(q, k, v)
+ if not q.requires_grad:
+     q = torch.empty_strided(q.shape, q.stride(), dtype=q.dtype).copy_(q)
+ return causal_attention(q, k, v)

# %% wrong REMEMBERS repeated keys in 16 bits kept by shape | of: repeat_interleave
- k = k.repeat_interleave(n, dim=1)
+ kept = globals().setdefault("KEPT", {})
+ k = k.repeat_interleave(n, dim=1)
+ if k.dtype in (torch.float16, torch.bfloat16):
+     k = kept.setdefault((k.shape, k.dtype), k)

# %% wrong REMEMBERS results in float16 kept by shape | of: repeat_interleave
- return causal_attention(q, k, v)
+ out = causal_attention(q, k, v)
+ if q.dtype == torch.float16:
+     out = globals().setdefault("KEPT", {}).setdefault((q.shape, k.shape), out).clone()
+ return out

# %% wrong GQA-LENGTH a table of 1,024 tokens
OPEN = torch.ones(1024, 1024, dtype=torch.bool).tril()

def grouped_attention(q, k, v):
    T = q.shape[2]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=OPEN[:T, :T], enable_gqa=True)

# %% wrong GQA-LENGTH a window of 2,000 tokens
def grouped_attention(q, k, v):
    T = q.shape[2]
    band = torch.ones(T, T, dtype=torch.bool).tril().triu(-1999)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=band, enable_gqa=True)

# %% wrong GQA-LENGTH where heads are shared, token numbers in the dtype of q
def grouped_attention(q, k, v):
    B, H, T, K = q.shape
    if H == k.shape[1]:
        return causal_attention(q, k, v)
    k, v = (x.repeat_interleave(H // k.shape[1], dim=1) for x in (k, v))
    number = torch.arange(T).type_as(q)
    scores = (q @ k.mT / math.sqrt(K)).float().masked_fill(number > number[:, None], -math.inf)
    return scores.softmax(-1).to(v.dtype) @ v

# %% wrong GQA-LENGTH positions in float16
def grouped_attention(q, k, v):
    H, (T, K) = q.shape[1], q.shape[-2:]
    k, v = (x.repeat_interleave(H // k.shape[1], dim=1) for x in (k, v))
    at = torch.arange(T).half()
    scores = (q @ k.mT / math.sqrt(K)).float().masked_fill(at > at[:, None], -math.inf)
    return scores.softmax(-1).to(v.dtype) @ v

# %% wrong RESULT-CHANGES a room for one token | of: repeat_interleave
- return causal_attention(q, k, v)
+ out = causal_attention(q, k, v)
+ if out.requires_grad or q.shape[2] > 1:
+     return out
+ room = globals().setdefault("ROOM", {})
+ return room.setdefault((out.shape, out.dtype), torch.empty_like(out)).copy_(out)

# %% wrong REMEMBERS copies of the heads kept with the keys they were made of | of: repeat_interleave
- k = k.repeat_interleave(n, dim=1)
- v = v.repeat_interleave(n, dim=1)
- return causal_attention(q, k, v)
+ last = globals().setdefault("LAST", [None, None, None])
+ if last[0] is not k or k.requires_grad or v.requires_grad:
+     last[:] = k, k.repeat_interleave(n, dim=1), v.repeat_interleave(n, dim=1)
+ return causal_attention(q, last[1].clone(), last[2].clone())

# %% wrong GQA-ROUNDED the head by a division of floats
def grouped_attention(q, k, v):
    H, G = q.shape[1], k.shape[1]
    shared = [int(h / H * G) for h in range(H)]
    return causal_attention(q, k[:, shared], v[:, shared])
