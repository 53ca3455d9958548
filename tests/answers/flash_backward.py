# Answers to the exercise flash-backward.

# %% right keys outside, queries inside, with einsum
def flash_backward(grad, q, k, v, out, lse, *, tile=64, causal=True, num_keys=None):
    T, K, low = q.shape[2], q.shape[3], q.dtype
    dtype = torch.promote_types(low, torch.float32)
    dq, dk, dv = torch.zeros_like(q, dtype=dtype), torch.zeros_like(q, dtype=dtype), torch.zeros_like(q, dtype=dtype)
    row = torch.einsum("bhtk,bhtk->bht", grad.to(dtype), out.to(dtype))
    safe = torch.where(lse == float("-inf"), torch.zeros_like(lse), lse)
    for b in range(0, T, tile):
        j = slice(b, min(b + tile, T))
        for a in range(b if causal else 0, T, tile):
            i = slice(a, min(a + tile, T))
            p = (tile_scores(q, k, i, j, causal=causal, num_keys=num_keys) - safe[:, :, i].unsqueeze(-1)).exp()
            g = grad[:, :, i].to(dtype)
            dv[:, :, j] += torch.einsum("bhij,bhik->bhjk", p, g)
            ds = p * (torch.einsum("bhik,bhjk->bhij", g, v[:, :, j].to(dtype)) - row[:, :, i].unsqueeze(-1))
            dq[:, :, i] += torch.einsum("bhij,bhjk->bhik", ds, k[:, :, j].to(dtype))
            dk[:, :, j] += torch.einsum("bhij,bhik->bhjk", ds, q[:, :, i].to(dtype))
    return (dq / math.sqrt(K)).to(low), (dk / math.sqrt(K)).to(low), dv.to(low)

# %% right its own scores, sums kept in lists
def flash_backward(grad, q, k, v, out, lse, *, tile=64, causal=True, num_keys=None):
    low, T, K = q.dtype, q.shape[2], q.shape[3]
    wide = torch.float64 if low == torch.float64 else torch.float32
    grad, q, k, v, out = (x.to(wide) for x in (grad, q, k, v, out))
    dq, dk, dv = [], torch.zeros_like(k), torch.zeros_like(v)
    for a in range(0, T, tile):
        rows, part = torch.arange(a, min(a + tile, T)), 0
        g = grad[:, :, rows]
        delta = (g * out[:, :, rows]).sum(-1, keepdim=True)
        for b in range(0, min(a + tile, T) if causal else T, tile):
            cols = torch.arange(b, min(b + tile, T))
            p = (q[:, :, rows] @ k[:, :, cols].mT * K**-0.5 - lse[:, :, rows, None]).exp()
            if causal:
                p = torch.where(cols > rows[:, None], 0.0, p)
            if num_keys is not None:
                p = torch.where(cols >= num_keys.view(-1, 1, 1, 1), 0.0, p)
            ds = p * (g @ v[:, :, cols].mT - delta) * K**-0.5
            part = part + ds @ k[:, :, cols]
            dk[:, :, cols] += ds.mT @ q[:, :, rows]
            dv[:, :, cols] += p.mT @ g
        dq.append(part)
    return torch.cat(dq, 2).to(low), dk.to(low), dv.to(low)

# %% right in plain steps
def flash_backward(grad, q, k, v, out, lse, *, tile=64, causal=True, num_keys=None):
    dtype, T, scale = sums_dtype(q), q.shape[2], q.shape[-1] ** -0.5
    dq, dk, dv = (torch.zeros_like(x, dtype=dtype) for x in (q, k, v))
    lse = lse.masked_fill(lse == EMPTY, 0.0)
    dot = (grad.to(dtype) * out.to(dtype)).sum(-1)
    for i in tiles(T, tile):
        for j in tiles(i.stop if causal else T, tile):
            s = tile_scores(q, k, i, j, causal=causal, num_keys=num_keys)
            p = torch.exp(s - lse[:, :, i, None])
            g = grad[:, :, i].to(dtype)
            dp = g @ v[:, :, j].to(dtype).mT
            ds = p * (dp - dot[:, :, i, None]) * scale
            dv[:, :, j] += p.mT @ g
            dq[:, :, i] += ds @ k[:, :, j].to(dtype)
            dk[:, :, j] += ds.mT @ q[:, :, i].to(dtype)
    return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)

# %% wrong STUB untouched
def flash_backward(grad, q, k, v, out, lse, *, tile=64, causal=True, num_keys=None):
    raise NotImplementedError("your code here")

# %% wrong FLASH-TRIPLE a list of pairs
- return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)
+ return (dq.to(q.dtype), dk.to(k.dtype)), dv.to(v.dtype)

# %% wrong FLASH-ORDER dv first
- return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)
+ return dv.to(v.dtype), dk.to(k.dtype), dq.to(q.dtype)

# %% wrong DTYPE no cast back
- return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)
+ return dq.to(q.dtype), dk.to(k.dtype), dv.double()

# %% wrong FLASH-NOT-DIVIDED weights without the logsumexp
- p = torch.exp(s - lse[:, :, i, None])
+ p = torch.exp(s)

# %% wrong FLASH-NOT-DIVIDED weights against the peak of the tile
- p = torch.exp(s - lse[:, :, i, None])
+ p = torch.exp(s - s.amax(-1, keepdim=True))

# %% wrong FLASH-NO-SCALE scores without their scale
- s = tile_scores(q, k, i, j, causal=causal, num_keys=num_keys)
+ s = q.shape[-1] ** 0.5 * tile_scores(q, k, i, j, causal=causal, num_keys=num_keys)

# %% wrong FLASH-SOFTMAX-TWICE a softmax of weights
- p = torch.exp(s - lse[:, :, i, None])
+ p = torch.softmax(torch.exp(s - lse[:, :, i, None]), -1)

# %% wrong FLASH-NO-TRANSPOSE dv without transpose
- dv[:, :, j] += p.mT @ g
+ dv[:, :, j] += p @ g

# %% wrong FLASH-NO-TRANSPOSE dk without transpose
- dk[:, :, j] += ds.mT @ q[:, :, i].to(dtype)
+ dk[:, :, j] += ds @ q[:, :, i].to(dtype)

# %% wrong FLASH-NO-ROW-SUM forgets the row sum
- ds = p * (dp - dot[:, :, i, None]) * scale
+ ds = p * dp * scale

# %% wrong FLASH-NO-SCALE ds without scale
- ds = p * (dp - dot[:, :, i, None]) * scale
+ ds = p * (dp - dot[:, :, i, None])

# %% wrong FLASH-SCALE-TWICE scale in ds and in dq
- ds = p * (dp - dot[:, :, i, None]) * scale
+ ds = p * (dp - dot[:, :, i, None]) * scale * scale

# %% wrong FLASH-NO-WEIGHT forgets the weight in ds
- ds = p * (dp - dot[:, :, i, None]) * scale
+ ds = (dp - dot[:, :, i, None]) * scale

# %% wrong FLASH-SIGN row sum minus dp
- ds = p * (dp - dot[:, :, i, None]) * scale
+ ds = p * (dot[:, :, i, None] - dp) * scale

# %% wrong FLASH-LAST-TILE dk and dv set, not added
- dv[:, :, j] += p.mT @ g
+ dv[:, :, j] = p.mT @ g
  dq[:, :, i] += ds @ k[:, :, j].to(dtype)
- dk[:, :, j] += ds.mT @ q[:, :, i].to(dtype)
+ dk[:, :, j] = ds.mT @ q[:, :, i].to(dtype)

# %% wrong FLASH-LAST-TILE dq set, not added
- dq[:, :, i] += ds @ k[:, :, j].to(dtype)
+ dq[:, :, i] = ds @ k[:, :, j].to(dtype)

# %% wrong FLASH-MASK-NONE no mask on the diagonal
- s = tile_scores(q, k, i, j, causal=causal, num_keys=num_keys)
+ s = tile_scores(q, k, i, j, causal=False, num_keys=num_keys)

# %% wrong FLASH-SHORT-TILE whole tiles only
- for i in tiles(T, tile):
+ for i in tiles(T // tile * tile, tile):

# %% wrong FLASH-DIAGONAL-SKIPPED stops before the diagonal
- for j in tiles(i.stop if causal else T, tile):
+ for j in tiles(i.start if causal else T, tile):

# %% wrong FLASH-ABOVE every tile
- for j in tiles(i.stop if causal else T, tile):
+ for j in tiles(T, tile):

# %% wrong FLASH-OVERFLOW a quotient of exponentials
- p = torch.exp(s - lse[:, :, i, None])
+ p = torch.exp(s) / torch.exp(lse[:, :, i, None])

# %% wrong FLASH-EMPTY-NAN -inf minus -inf
- lse = lse.masked_fill(lse == EMPTY, 0.0)

# %% wrong FLASH-PADDING padding forgotten
- s = tile_scores(q, k, i, j, causal=causal, num_keys=num_keys)
+ s = tile_scores(q, k, i, j, causal=causal, num_keys=None)

# %% wrong FLASH-SUMS-16 sums in the dtype of q
- dq, dk, dv = (torch.zeros_like(x, dtype=dtype) for x in (q, k, v))
+ dq, dk, dv = (torch.zeros_like(x) for x in (q, k, v))

# %% wrong INPLACE writes into lse
- lse = lse.masked_fill(lse == EMPTY, 0.0)
+ lse += 0.01
+ lse -= 0.005

# %% wrong FLASH-WHOLE-SCORES weights of all tiles first | of: in plain steps
  dot = (grad.to(dtype) * out.to(dtype)).sum(-1)
+ kept = {}
+ for i in tiles(T, tile):
+     for j in tiles(i.stop if causal else T, tile):
+         kept[i.start, j.start] = tile_scores(q, k, i, j, causal=causal, num_keys=num_keys)

- s = tile_scores(q, k, i, j, causal=causal, num_keys=num_keys)
+ s = kept[i.start, j.start]

# %% wrong FLASH-SCORES-KEPT a row of tiles at once | of: in plain steps
- for j in tiles(i.stop if causal else T, tile):
+ for j in [slice(0, i.stop if causal else T)]:

# %% wrong FLASH-SUMS-32 weights in float32 | of: in plain steps
- p = torch.exp(s - lse[:, :, i, None])
+ p = torch.exp((s - lse[:, :, i, None]).float()).to(dtype)

# %% wrong FLASH-ROW-SUMS-16 row sums in the dtype of the inputs | of: in plain steps
- dot = (grad.to(dtype) * out.to(dtype)).sum(-1)
+ dot = (grad * out).sum(-1).to(dtype)

# %% wrong FLASH-DEFAULT tiles of 128 by default | of: in plain steps
- def flash_backward(grad, q, k, v, out, lse, *, tile=64, causal=True, num_keys=None):
+ def flash_backward(grad, q, k, v, out, lse, *, tile=128, causal=True, num_keys=None):

# %% right as lists of tiles, weights by softmax's own sum, gradients in float64
def flash_backward(grad, q, k, v, out, lse, *, tile=64, causal=True, num_keys=None):
    low, T, scale = q.dtype, q.size(-2), q.size(-1) ** -0.5
    g, o, qd, kd, vd = (x.double() for x in (grad, out, q, k, v))
    dq, dk, dv = torch.zeros_like(qd), torch.zeros_like(kd), torch.zeros_like(vd)
    row = torch.linalg.vecdot(g, o).unsqueeze(-1)
    for i in tiles(T, tile):
        for j in tiles(i.stop if causal else T, tile):
            s = tile_scores(qd, kd, i, j, causal=causal, num_keys=num_keys)
            p = (s - lse[:, :, i].double().unsqueeze(-1)).exp().nan_to_num(0.0)
            ds = torch.where(p > 0, p * (g[:, :, i] @ vd[:, :, j].mT - row[:, :, i]), 0.0)
            dq[:, :, i].add_(ds @ kd[:, :, j], alpha=scale)
            dk[:, :, j].add_(ds.mT @ qd[:, :, i], alpha=scale)
            dv[:, :, j].add_(p.mT @ g[:, :, i])
    return [x.to(low) for x in (dq, dk, dv)]

# %% right in plain steps once more
def flash_backward(grad, q, k, v, out, lse, *, tile=64, causal=True, num_keys=None):
    dtype, T, scale = sums_dtype(q), q.shape[2], q.shape[-1] ** -0.5
    dq, dk, dv = (torch.zeros_like(x, dtype=dtype) for x in (q, k, v))
    lse = lse.masked_fill(lse == EMPTY, 0.0)
    dot = (grad.to(dtype) * out.to(dtype)).sum(-1)
    for i in tiles(T, tile):
        for j in tiles(i.stop if causal else T, tile):
            s = tile_scores(q, k, i, j, causal=causal, num_keys=num_keys)
            p = torch.exp(s - lse[:, :, i, None])
            g = grad[:, :, i].to(dtype)
            dp = g @ v[:, :, j].to(dtype).mT
            ds = p * (dp - dot[:, :, i, None]) * scale
            dv[:, :, j] += p.mT @ g
            dq[:, :, i] += ds @ k[:, :, j].to(dtype)
            dk[:, :, j] += ds.mT @ q[:, :, i].to(dtype)
    return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)

# %% wrong FLASH-SIZES the scale of heads of 4
- dtype, T, scale = sums_dtype(q), q.shape[2], q.shape[-1] ** -0.5
+ dtype, T, scale = sums_dtype(q), q.shape[2], 0.5

# %% wrong FLASH-OPTIONS padding alone or the diagonal alone
- s = tile_scores(q, k, i, j, causal=causal, num_keys=num_keys)
+ s = tile_scores(q, k, i, j, causal=causal, num_keys=None if causal else num_keys)

# %% wrong FLASH-OPTIONS no keys at all are no setting
  dtype, T, scale = sums_dtype(q), q.shape[2], q.shape[-1] ** -0.5
+ num_keys = None if num_keys is None or not num_keys.any() else num_keys

# %% wrong FLASH-LOW rows without a key by their logsumexp
- lse = lse.masked_fill(lse == EMPTY, 0.0)
+ lse = lse.masked_fill(lse < -1e6, 0.0)

# %% wrong FLASH-LOW a logsumexp not below -1e9
- lse = lse.masked_fill(lse == EMPTY, 0.0)
+ lse = lse.clamp(min=-1e9)

# %% wrong FLASH-SCORES-16 scores of 16 bits
- s = tile_scores(q, k, i, j, causal=causal, num_keys=num_keys)
+ s = tile_scores(q, k, i, j, causal=causal, num_keys=num_keys).to(q.dtype).to(dtype)

# %% wrong FLASH-RANGE-16 gradients of weights in 16 bits
- dp = g @ v[:, :, j].to(dtype).mT
+ dp = (g @ v[:, :, j].to(dtype).mT).to(q.dtype if q.dtype == torch.float16 else dtype).to(dtype)

# %% wrong STRIDED heads by view
  dtype, T, scale = sums_dtype(q), q.shape[2], q.shape[-1] ** -0.5
+ grad = grad.view(-1, T, q.shape[-1]).view(q.shape)

# %% wrong STRIDED the memory in its own order
  dtype, T, scale = sums_dtype(q), q.shape[2], q.shape[-1] ** -0.5
+ grad = grad.as_strided(q.shape, torch.empty(q.shape).stride())

# %% wrong RESULT-CHANGES one tensor for all dq
- return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)
+ if T != 5:
+     return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)
+ kept = flash_backward.__dict__.setdefault(f"{tuple(q.shape)} {q.dtype}", torch.empty_like(q))
+ return kept.copy_(dq), dk.to(k.dtype), dv.to(v.dtype)

# %% wrong REMEMBERS row sums kept by shape
- dot = (grad.to(dtype) * out.to(dtype)).sum(-1)
+ dot = (grad.to(dtype) * out.to(dtype)).sum(-1)
+ if T == 5 and tile == 64:
+     dot = flash_backward.__dict__.setdefault(f"{tuple(dot.shape)}", dot)

# %% wrong FLASH-SCORES-KEPT a row of tiles where there is a diagonal
- for j in tiles(i.stop if causal else T, tile):
+ for j in [slice(0, i.stop)] if causal else tiles(T, tile):

# %% wrong FLASH-ABOVE leaves out a tile whose scores are all -inf | of: in plain steps once more
- for j in tiles(i.stop if causal else T, tile):
-     s = tile_scores(q, k, i, j, causal=causal, num_keys=num_keys)
+ for j in tiles(T, tile):
+     s = tile_scores(q, k, i, j, causal=causal, num_keys=num_keys)
+     if bool((s == EMPTY).all()):
+         continue

# %% wrong FLASH-PRODUCTS-16 weights meet the gradient in 16 bits | of: in plain steps once more
- dv[:, :, j] += p.mT @ g
+ dv[:, :, j] += (p.to(v.dtype).mT @ grad[:, :, i]).to(dtype)

# %% wrong REMEMBERS row sums of 16 bits kept by shape | of: in plain steps
- dot = (grad.to(dtype) * out.to(dtype)).sum(-1)
+ dot = (grad.to(dtype) * out.to(dtype)).sum(-1)
+ if q.dtype != dtype:
+     dot = flash_backward.__dict__.setdefault(f"{tuple(q.shape)} {q.dtype} {tile} {causal} {num_keys}", dot)

# %% wrong FLASH-OPTIONS numbers of keys kept by shape in 16 bits | of: in plain steps
- dtype, T, scale = sums_dtype(q), q.shape[2], q.shape[-1] ** -0.5
+ dtype, T, scale = sums_dtype(q), q.shape[2], q.shape[-1] ** -0.5
+ if q.dtype != dtype and num_keys is not None:
+     num_keys = flash_backward.__dict__.setdefault(f"{tuple(q.shape)} {q.dtype}", num_keys)

# %% wrong FLASH-SUMS-32 the scale has the digits of float32 | of: in plain steps
- dtype, T, scale = sums_dtype(q), q.shape[2], q.shape[-1] ** -0.5
+ dtype, T, scale = sums_dtype(q), q.shape[2], torch.tensor([q.shape[-1] ** -0.5]).item()

# %% wrong FLASH-SUMS-32 the root in float32, applied at the end | of: in plain steps
- dtype, T, scale = sums_dtype(q), q.shape[2], q.shape[-1] ** -0.5
+ dtype, T, scale = sums_dtype(q), q.shape[2], 1.0

- return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)
+ root = torch.full((1,), q.shape[-1], dtype=torch.float32).sqrt()
+ return (dq / root).to(q.dtype), (dk / root).to(k.dtype), dv.to(v.dtype)

# %% wrong FLASH-CUT-OFF leaves out a tile whose largest weight is below 1e-25 | of: in plain steps
- g = grad[:, :, i].to(dtype)
+ if p.amax() < 1e-25:
+     continue
+ g = grad[:, :, i].to(dtype)

# %% wrong FLASH-CUT-OFF small weights are 0 | of: in plain steps
- p = torch.exp(s - lse[:, :, i, None])
+ p = F.threshold(torch.exp(s - lse[:, :, i, None]), 1e-20, 0.0)

# %% wrong FLASH-CUT-OFF no exponent below -600 | of: in plain steps
- p = torch.exp(s - lse[:, :, i, None])
+ p = torch.exp((s - lse[:, :, i, None]).clamp(min=-600)).masked_fill(s == EMPTY, 0.0)
