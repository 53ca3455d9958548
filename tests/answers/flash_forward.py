# Answers to the exercise flash-forward.

# %% right ranges in place of tiles, keeps lists
def flash_forward(q, k, v, *, tile=64, causal=True, num_keys=None):
    T, dtype = q.shape[2], torch.promote_types(q.dtype, torch.float32)
    outs, lses = [], []
    for a in range(0, T, tile):
        i = slice(a, min(a + tile, T))
        rows = q[:, :, i].to(dtype)
        state = (torch.full(rows.shape[:-1], float("-inf"), dtype=dtype), torch.zeros(rows.shape[:-1], dtype=dtype), torch.zeros_like(rows))
        for b in range(0, T, tile):
            if causal and b >= i.stop:
                break
            j = slice(b, min(b + tile, T))
            state = add_tile(*state, tile_scores(q, k, i, j, causal=causal, num_keys=num_keys), v[:, :, j].to(dtype))
        peak, total, mixed = state
        outs.append(torch.where(total[..., None] > 0, mixed / total[..., None], 0.0))
        lses.append(peak + total.log())
    return torch.cat(outs, 2).to(q.dtype), torch.cat(lses, 2)

# %% right its own scores and mask, no helper but add_tile
def flash_forward(q, k, v, *, tile=64, causal=True, num_keys=None):
    B, H, T, K = q.shape
    low, dtype = q.dtype, torch.float64 if q.dtype == torch.float64 else torch.float32
    q, k, v = q.to(dtype) * K**-0.5, k.to(dtype), v.to(dtype)
    out, lse = torch.zeros_like(q), torch.zeros(B, H, T, dtype=dtype)
    for a in range(0, T, tile):
        rows = torch.arange(a, min(a + tile, T))
        peak = torch.full((B, H, len(rows)), float("-inf"), dtype=dtype)
        total, mixed = torch.zeros_like(peak), torch.zeros(B, H, len(rows), K, dtype=dtype)
        for b in range(0, a + tile if causal else T, tile):
            cols = torch.arange(b, min(b + tile, T))
            s = torch.einsum("bhik,bhjk->bhij", q[:, :, rows], k[:, :, cols])
            if causal:
                s = torch.where(cols[None] <= rows[:, None], s, float("-inf"))
            if num_keys is not None:
                s = torch.where(cols < num_keys[:, None, None, None], s, float("-inf"))
            peak, total, mixed = add_tile(peak, total, mixed, s, v[:, :, cols])
        out[:, :, rows] = (mixed / total[..., None]).nan_to_num(0.0)
        lse[:, :, rows] = torch.log(total) + peak
    return out.to(low), lse

# %% right logsumexp joins finished tiles
def flash_forward(q, k, v, *, tile=64, causal=True, num_keys=None):
    T, dtype = q.shape[2], sums_dtype(q)
    out, lse = torch.zeros_like(q, dtype=dtype), torch.full(q.shape[:-1], EMPTY, dtype=dtype)
    for i in tiles(T, tile):
        for j in tiles(i.stop if causal else T, tile):
            s = tile_scores(q, k, i, j, causal=causal, num_keys=num_keys)
            part = torch.softmax(s, -1).nan_to_num(0.0) @ v[:, :, j].to(dtype)
            both = torch.logaddexp(lse[:, :, i], s.logsumexp(-1))
            a, b = (lse[:, :, i] - both).exp().nan_to_num(0.0), (s.logsumexp(-1) - both).exp().nan_to_num(0.0)
            out[:, :, i] = out[:, :, i] * a[..., None] + part * b[..., None]
            lse[:, :, i] = both
    return out.to(q.dtype), lse

# %% right in plain steps
def flash_forward(q, k, v, *, tile=64, causal=True, num_keys=None):
    dtype, (B, H, T, K) = sums_dtype(q), q.shape
    out, lse = torch.empty_like(q), q.new_empty(B, H, T, dtype=dtype)
    for i in tiles(T, tile):
        mixed = torch.zeros_like(q[:, :, i], dtype=dtype)
        total = torch.zeros_like(mixed[..., 0])
        peak = torch.full_like(total, EMPTY)
        for j in tiles(i.stop if causal else T, tile):
            s = tile_scores(q, k, i, j, causal=causal, num_keys=num_keys)
            peak, total, mixed = add_tile(peak, total, mixed, s, v[:, :, j].to(dtype))
        divisor = total.masked_fill(total == 0, 1.0)
        out[:, :, i] = (mixed / divisor[..., None]).to(out.dtype)
        lse[:, :, i] = peak + divisor.log()
    return out, lse

# %% wrong STUB untouched
def flash_forward(q, k, v, *, tile=64, causal=True, num_keys=None):
    raise NotImplementedError("your code here")

# %% wrong FLASH-PAIR the output alone
- return out, lse
+ return out

# %% wrong FLASH-NO-SCALE scores without a scale
- s = tile_scores(q, k, i, j, causal=causal, num_keys=num_keys)
+ rows, cols = torch.arange(i.start, i.stop), torch.arange(j.start, j.stop)
+ s = q[:, :, i].to(dtype) @ k[:, :, j].to(dtype).mT
+ if causal:
+     s = s.masked_fill(cols > rows[:, None], EMPTY)
+ if num_keys is not None:
+     s = s.masked_fill(cols >= num_keys.view(-1, 1, 1, 1), EMPTY)

# %% wrong FLASH-SCALE-TWICE scales what is scaled
- s = tile_scores(q, k, i, j, causal=causal, num_keys=num_keys)
+ s = tile_scores(q, k, i, j, causal=causal, num_keys=num_keys) / math.sqrt(K)

# %% wrong FLASH-NOT-DIVIDED hands out the sums
- out[:, :, i] = (mixed / divisor[..., None]).to(out.dtype)
+ out[:, :, i] = (mixed).to(out.dtype)

# %% wrong FLASH-LAST-TILE begins anew with each tile of keys
- mixed = torch.zeros_like(q[:, :, i], dtype=dtype)
- total = torch.zeros_like(mixed[..., 0])
- peak = torch.full_like(total, EMPTY)
  for j in tiles(i.stop if causal else T, tile):
+     mixed = torch.zeros_like(q[:, :, i], dtype=dtype)
+     total = torch.zeros_like(mixed[..., 0])
+     peak = torch.full_like(total, EMPTY)

# %% wrong FLASH-PER-TILE adds up finished tiles
- peak, total, mixed = add_tile(peak, total, mixed, s, v[:, :, j].to(dtype))
+ mixed = mixed + torch.softmax(s, -1) @ v[:, :, j].to(dtype)
+ peak = torch.logaddexp(peak, s.logsumexp(-1))

# %% wrong FLASH-CARRIED begins once for all queries
  out, lse = torch.empty_like(q), q.new_empty(B, H, T, dtype=dtype)
+ mixed = torch.zeros_like(q[:, :, :tile], dtype=dtype)
+ total = torch.zeros_like(mixed[..., 0])
+ peak = torch.full_like(total, EMPTY)
  for i in tiles(T, tile):
-     mixed = torch.zeros_like(q[:, :, i], dtype=dtype)
-     total = torch.zeros_like(mixed[..., 0])
-     peak = torch.full_like(total, EMPTY)

# %% wrong FLASH-SHORT-TILE drops the last queries
- for i in tiles(T, tile):
+ for i in (slice(n * tile, (n + 1) * tile) for n in range(T // tile)):

# %% wrong FLASH-SHORT-TILE drops the last keys
- for j in tiles(i.stop if causal else T, tile):
+ for j in tiles(i.stop if causal else T // tile * tile, tile):

# %% wrong FLASH-MASK-NONE no mask, every tile
- for j in tiles(i.stop if causal else T, tile):
-     s = tile_scores(q, k, i, j, causal=causal, num_keys=num_keys)
+ for j in tiles(T, tile):
+     s = tile_scores(q, k, i, j, causal=False, num_keys=num_keys)

# %% wrong FLASH-MASK-TILE no mask on the diagonal
- s = tile_scores(q, k, i, j, causal=causal, num_keys=num_keys)
+ s = tile_scores(q, k, i, j, causal=False, num_keys=num_keys)

# %% wrong FLASH-MASK-SELF hides the token itself
- s = tile_scores(q, k, i, j, causal=causal, num_keys=num_keys)
+ rows, cols = torch.arange(i.start, i.stop), torch.arange(j.start, j.stop)
+ s = q[:, :, i].to(dtype) @ k[:, :, j].to(dtype).mT * K**-0.5
+ if causal:
+     s = s.masked_fill(cols >= rows[:, None], EMPTY)
+ if num_keys is not None:
+     s = s.masked_fill(cols >= num_keys.view(-1, 1, 1, 1), EMPTY)

# %% wrong FLASH-MASK-SIDE hides the past of the tile
- s = tile_scores(q, k, i, j, causal=causal, num_keys=num_keys)
+ rows, cols = torch.arange(i.start, i.stop), torch.arange(j.start, j.stop)
+ s = q[:, :, i].to(dtype) @ k[:, :, j].to(dtype).mT * K**-0.5
+ if causal:
+     s = s.masked_fill((cols < rows[:, None]) & (j.start == i.start), EMPTY)
+ if num_keys is not None:
+     s = s.masked_fill(cols >= num_keys.view(-1, 1, 1, 1), EMPTY)

# %% wrong FLASH-DIAGONAL-SKIPPED stops before its own tile
- for j in tiles(i.stop if causal else T, tile):
+ for j in tiles(i.start if causal else T, tile):

# %% wrong FLASH-MASK-LOCAL numbers within the tile
- s = tile_scores(q, k, i, j, causal=causal, num_keys=num_keys)
+ rows, cols = torch.arange(i.start, i.stop), torch.arange(j.start, j.stop)
+ s = q[:, :, i].to(dtype) @ k[:, :, j].to(dtype).mT * K**-0.5
+ if causal:
+     s = s.masked_fill(cols - j.start > rows[:, None] - i.start, EMPTY)
+ if num_keys is not None:
+     s = s.masked_fill(cols >= num_keys.view(-1, 1, 1, 1), EMPTY)

# %% wrong FLASH-MASK-SHORT first token as number of tile times its length
- s = tile_scores(q, k, i, j, causal=causal, num_keys=num_keys)
+ rows, cols = torch.arange(i.start, i.stop), torch.arange(j.start, j.stop)
+ s = q[:, :, i].to(dtype) @ k[:, :, j].to(dtype).mT * K**-0.5
+ if causal:
+     s = s.masked_fill(cols > (rows - i.start + i.start // tile * len(rows))[:, None], EMPTY)
+ if num_keys is not None:
+     s = s.masked_fill(cols >= num_keys.view(-1, 1, 1, 1), EMPTY)

# %% wrong FLASH-ABOVE every tile, masked
- for j in tiles(i.stop if causal else T, tile):
+ for j in tiles(T, tile):

# %% wrong FLASH-ABOVE the whole matrix
def flash_forward(q, k, v, *, tile=64, causal=True, num_keys=None):
    T, dtype = q.shape[2], sums_dtype(q)
    s = tile_scores(q, k, slice(0, T), slice(0, T), causal=causal, num_keys=num_keys)
    return (torch.softmax(s, -1).nan_to_num(0.0) @ v.to(dtype)).to(q.dtype), s.logsumexp(-1)

# %% wrong FLASH-LSE-NO-PEAK the logarithm alone
- lse[:, :, i] = peak + divisor.log()
+ lse[:, :, i] = divisor.log()

# %% wrong FLASH-LSE-PARTS the total without a logarithm
- lse[:, :, i] = peak + divisor.log()
+ lse[:, :, i] = peak + total

# %% wrong FLASH-OVERFLOW a softmax without its maximum
- peak, total, mixed = add_tile(peak, total, mixed, s, v[:, :, j].to(dtype))
+ total, mixed = total + s.exp().sum(-1), mixed + s.exp() @ v[:, :, j].to(dtype)

- lse[:, :, i] = peak + divisor.log()
+ lse[:, :, i] = total.log()

# %% wrong FLASH-EMPTY-NAN divides by 0
- out[:, :, i] = (mixed / divisor[..., None]).to(out.dtype)
- lse[:, :, i] = peak + divisor.log()
+ out[:, :, i] = (mixed / total[..., None]).to(out.dtype)
+ lse[:, :, i] = peak + total.log()

# %% wrong FLASH-PADDING padding forgotten
- s = tile_scores(q, k, i, j, causal=causal, num_keys=num_keys)
+ s = tile_scores(q, k, i, j, causal=causal, num_keys=None)

# %% wrong FLASH-SUMS-16 sums in the dtype of q
- dtype, (B, H, T, K) = sums_dtype(q), q.shape
- out, lse = torch.empty_like(q), q.new_empty(B, H, T, dtype=dtype)
+ dtype, (B, H, T, K) = q.dtype, q.shape
+ out, lse = torch.empty_like(q), q.new_empty(B, H, T, dtype=sums_dtype(q))

- s = tile_scores(q, k, i, j, causal=causal, num_keys=num_keys)
+ s = tile_scores(q, k, i, j, causal=causal, num_keys=num_keys).to(dtype)

# %% wrong FLASH-LSE-DTYPE logsumexp in the dtype of q
- out, lse = torch.empty_like(q), q.new_empty(B, H, T, dtype=dtype)
+ out, lse = torch.empty_like(q), q.new_empty(B, H, T)

# %% wrong FLASH-WHOLE-SCORES all scores at once where nothing is masked | of: in plain steps
+ if not causal:
+     s = torch.cat([tile_scores(q, k, slice(0, T), j, causal=False, num_keys=num_keys) for j in tiles(T, tile)], -1)
+     lse, p = s.logsumexp(-1), s.softmax(-1).nan_to_num(0.0)
+     return (p @ v.to(dtype)).to(q.dtype), lse
  out, lse = torch.empty_like(q), q.new_empty(B, H, T, dtype=dtype)

# %% wrong FLASH-SCORES-KEPT a row of tiles at once | of: in plain steps
- for j in tiles(i.stop if causal else T, tile):
-     s = tile_scores(q, k, i, j, causal=causal, num_keys=num_keys)
-     peak, total, mixed = add_tile(peak, total, mixed, s, v[:, :, j].to(dtype))
+ j = slice(0, i.stop if causal else T)
+ s = tile_scores(q, k, i, j, causal=causal, num_keys=num_keys)
+ peak, total, mixed = add_tile(peak, total, mixed, s, v[:, :, j].to(dtype))

# %% wrong FLASH-SUMS-32 float32 for everything | of: in plain steps
- s = tile_scores(q, k, i, j, causal=causal, num_keys=num_keys)
+ s = tile_scores(q.float(), k.float(), i, j, causal=causal, num_keys=num_keys).to(dtype)

# %% wrong FLASH-DEFAULT tiles of 128 by default | of: in plain steps
- def flash_forward(q, k, v, *, tile=64, causal=True, num_keys=None):
+ def flash_forward(q, k, v, *, tile=128, causal=True, num_keys=None):

# %% right tiles stacked, keys from the last to the first, sums in one tensor
def flash_forward(q, k, v, *, tile=64, causal=True, num_keys=None):
    low, T = q.dtype, q.size(-2)
    wide = q.new_zeros((), dtype=torch.float32).to(low).double() if low == torch.float64 else torch.zeros(())
    out, lse = [], []
    for i in tiles(T, tile):
        state = [wide.new_full(q[:, :, i, 0].shape, EMPTY), wide.new_zeros(q[:, :, i, 0].shape), wide.new_zeros(q[:, :, i].shape)]
        for j in reversed(list(tiles(i.stop if causal else T, tile))):
            s = tile_scores(q, k, i, j, causal=causal, num_keys=num_keys)
            state = list(add_tile(*state, s, v[..., j, :].type_as(s)))
        empty = state[1] == 0
        mean = state[2] / state[1].where(~empty, torch.ones_like(state[1])).unsqueeze(-1)
        out.append(mean.to(low))
        lse.append(torch.where(empty, EMPTY, state[0] + torch.log(state[1])))
    return [torch.cat(out, -2), torch.cat(lse, -1)]

# %% right in plain steps once more
def flash_forward(q, k, v, *, tile=64, causal=True, num_keys=None):
    dtype, (B, H, T, K) = sums_dtype(q), q.shape
    out, lse = torch.empty_like(q), q.new_empty(B, H, T, dtype=dtype)
    for i in tiles(T, tile):
        mixed = torch.zeros_like(q[:, :, i], dtype=dtype)
        total = torch.zeros_like(mixed[..., 0])
        peak = torch.full_like(total, EMPTY)
        for j in tiles(i.stop if causal else T, tile):
            s = tile_scores(q, k, i, j, causal=causal, num_keys=num_keys)
            peak, total, mixed = add_tile(peak, total, mixed, s, v[:, :, j].to(dtype))
        divisor = total.masked_fill(total == 0, 1.0)
        out[:, :, i] = (mixed / divisor[..., None]).to(out.dtype)
        lse[:, :, i] = peak + divisor.log()
    return out, lse

# %% wrong FLASH-SIZES the scale of heads of 4
- s = tile_scores(q, k, i, j, causal=causal, num_keys=num_keys)
+ s = tile_scores(q, k, i, j, causal=causal, num_keys=num_keys) * (K**0.5 / 2)

# %% wrong FLASH-SIZES a scale from the whole tile
- s = tile_scores(q, k, i, j, causal=causal, num_keys=num_keys)
+ s = tile_scores(q, k, i, j, causal=causal, num_keys=num_keys)
+ if T == 1:
+     s = s * 2

# %% wrong SHAPE dimensions of one are squeezed away
- return out, lse
+ return out, lse.squeeze()

# %% wrong FLASH-OPTIONS padding alone or the diagonal alone
- s = tile_scores(q, k, i, j, causal=causal, num_keys=num_keys)
+ s = tile_scores(q, k, i, j, causal=causal, num_keys=None if causal else num_keys)

# %% wrong FLASH-OPTIONS no keys at all are no setting
  dtype, (B, H, T, K) = sums_dtype(q), q.shape
+ num_keys = None if num_keys is None or not num_keys.any() else num_keys

# %% wrong FLASH-OPTIONS the loop ends with the first sequence
- for j in tiles(i.stop if causal else T, tile):
+ for j in tiles(i.stop if causal else T if num_keys is None else max(1, int(num_keys[-1])), tile):

# %% wrong FLASH-OPTIONS scores below the diagonal kept by place
- s = tile_scores(q, k, i, j, causal=causal, num_keys=num_keys)
+ s = tile_scores(q, k, i, j, causal=causal, num_keys=num_keys)
+ if num_keys is not None:
+     kept = flash_forward.__dict__.setdefault(f"{T} {tile} {i} {j}", s == EMPTY)
+     s = tile_scores(q, k, i, j, causal=False).masked_fill(kept, EMPTY)

# %% wrong FLASH-LOW a large finite number in place of -inf
- s = tile_scores(q, k, i, j, causal=causal, num_keys=num_keys)
+ s = tile_scores(q, k, i, j, causal=False)
+ rows, cols = torch.arange(i.start, i.stop), torch.arange(j.start, j.stop)
+ if causal:
+     s = s.masked_fill(cols > rows[:, None], -1e9)
+ if num_keys is not None:
+     s = s.masked_fill(cols >= num_keys.view(-1, 1, 1, 1), EMPTY)

# %% wrong FLASH-LOW rows without a key by their peak
- divisor = total.masked_fill(total == 0, 1.0)
- out[:, :, i] = (mixed / divisor[..., None]).to(out.dtype)
- lse[:, :, i] = peak + divisor.log()
+ empty = peak < -1e4
+ divisor = total.masked_fill(empty, 1.0)
+ out[:, :, i] = (mixed.masked_fill(empty[..., None], 0.0) / divisor[..., None]).to(out.dtype)
+ lse[:, :, i] = peak.masked_fill(empty, EMPTY) + divisor.log()

# %% wrong FLASH-SCORES-16 scores of 16 bits
- s = tile_scores(q, k, i, j, causal=causal, num_keys=num_keys)
+ s = tile_scores(q, k, i, j, causal=causal, num_keys=num_keys).to(q.dtype).to(dtype)

# %% wrong STRIDED heads by view
  dtype, (B, H, T, K) = sums_dtype(q), q.shape
+ q, k, v = (x.view(B * H, T, K).view(B, H, T, K) for x in (q, k, v))

# %% wrong STRIDED the memory in its own order
  dtype, (B, H, T, K) = sums_dtype(q), q.shape
+ v = v.as_strided(v.shape, (H * T * K, T * K, K, 1))

# %% wrong RESULT-CHANGES one tensor for all outputs
- out, lse = torch.empty_like(q), q.new_empty(B, H, T, dtype=dtype)
+ kept = flash_forward.__dict__
+ out = kept.setdefault(f"{tuple(q.shape)} {q.dtype}", torch.empty_like(q)) if T == 5 else torch.empty_like(q)
+ lse = q.new_empty(B, H, T, dtype=dtype)

# %% wrong REMEMBERS keys kept by shape
  dtype, (B, H, T, K) = sums_dtype(q), q.shape
+ if T == 5 and tile == 64:
+     k = flash_forward.__dict__.setdefault(f"{tuple(k.shape)} {k.dtype}", k)

# %% wrong FLASH-SCORES-KEPT a row of tiles where there is a diagonal
- for j in tiles(i.stop if causal else T, tile):
+ for j in [slice(0, i.stop)] if causal else tiles(T, tile):

# %% wrong FLASH-ABOVE leaves the loop at a tile whose scores are all -inf | of: in plain steps
- for j in tiles(i.stop if causal else T, tile):
-     s = tile_scores(q, k, i, j, causal=causal, num_keys=num_keys)
+ for j in tiles(T, tile):
+     s = tile_scores(q, k, i, j, causal=causal, num_keys=num_keys)
+     if bool((s == EMPTY).all()):
+         break

# %% wrong FLASH-PRODUCTS-16 weights meet the values in 16 bits | of: in plain steps
- peak, total, mixed = add_tile(peak, total, mixed, s, v[:, :, j].to(dtype))
+ new = torch.maximum(peak, s.amax(-1))
+ base = new.masked_fill(new == EMPTY, 0.0)
+ keep, weights = torch.exp(peak - base), torch.exp(s - base[..., None])
+ added = (weights.to(v.dtype) @ v[:, :, j]).to(dtype)
+ peak, total, mixed = new, total * keep + weights.sum(-1), mixed * keep[..., None] + added

# %% wrong REMEMBERS results of 16 bits kept by shape | of: in plain steps
- return out, lse
+ if q.dtype in (torch.float16, torch.bfloat16):
+     key = f"{tuple(q.shape)} {q.dtype} {tile} {causal} {num_keys}"
+     out, lse = flash_forward.__dict__.setdefault(key, (out, lse))
+ return out.clone(), lse

# %% wrong FLASH-OPTIONS numbers of keys kept by shape in 16 bits | of: in plain steps
- dtype, (B, H, T, K) = sums_dtype(q), q.shape
+ dtype, (B, H, T, K) = sums_dtype(q), q.shape
+ if q.dtype != dtype and num_keys is not None:
+     num_keys = flash_forward.__dict__.setdefault(f"{tuple(q.shape)} {q.dtype}", num_keys)

# %% wrong FLASH-SUMS-32 a scale with the digits of float32 | of: in plain steps
- s = tile_scores(q, k, i, j, causal=causal, num_keys=num_keys)
+ s = tile_scores(q * K**0.5, k, i, j, causal=causal, num_keys=num_keys)
+ s = s / torch.tensor(float(K)).sqrt()

# %% wrong FLASH-SUMS-32 its own scores, times a float32 root | of: in plain steps
- s = tile_scores(q, k, i, j, causal=causal, num_keys=num_keys)
+ rows, cols = torch.arange(i.start, i.stop), torch.arange(j.start, j.stop)
+ root = torch.full((1,), K, dtype=torch.float32).rsqrt()
+ s = q[:, :, i].to(dtype) @ k[:, :, j].to(dtype).mT * root
+ if causal:
+     s = s.masked_fill(cols > rows[:, None], EMPTY)
+ if num_keys is not None:
+     s = s.masked_fill(cols >= num_keys.view(-1, 1, 1, 1), EMPTY)

# %% wrong FLASH-CUT-OFF leaves out a tile far below the peak | of: in plain steps
- peak, total, mixed = add_tile(peak, total, mixed, s, v[:, :, j].to(dtype))
+ if bool((s.amax(-1) < peak - 50).all()):
+     continue
+ peak, total, mixed = add_tile(peak, total, mixed, s, v[:, :, j].to(dtype))

# %% wrong FLASH-CUT-OFF no score below the peak by 70 or more | of: in plain steps
- peak, total, mixed = add_tile(peak, total, mixed, s, v[:, :, j].to(dtype))
+ top = torch.maximum(peak, s.amax(-1))[..., None]
+ s = torch.where(s < top - 70, EMPTY, s)
+ peak, total, mixed = add_tile(peak, total, mixed, s, v[:, :, j].to(dtype))

# %% wrong FLASH-CUT-OFF no exponent below -600 | of: in plain steps
- peak, total, mixed = add_tile(peak, total, mixed, s, v[:, :, j].to(dtype))
+ top = torch.maximum(peak, s.amax(-1))[..., None]
+ s = torch.where(s == EMPTY, EMPTY, torch.maximum(s, top - 600))
+ peak, total, mixed = add_tile(peak, total, mixed, s, v[:, :, j].to(dtype))
