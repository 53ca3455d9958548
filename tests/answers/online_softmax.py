# Answers to the exercise online-softmax.

# %% right with where, keepdim and einsum
def add_tile(peak, total, mixed, scores, values):
    top = scores.max(dim=-1, keepdim=True).values
    new = torch.where(top > peak[..., None], top, peak[..., None])
    safe = torch.where(torch.isinf(new), torch.zeros_like(new), new)
    p = (scores - safe).exp()
    factor = (peak[..., None] - safe).exp()
    mixed = factor * mixed + torch.einsum("...ij,...jk->...ik", p, values.expand(*p.shape[:-2], *values.shape[-2:]))
    return new.squeeze(-1), factor.squeeze(-1) * total + p.sum(-1), mixed

# %% right two softmaxes joined by their logsumexp
def add_tile(peak, total, mixed, scores, values):
    lse = torch.logsumexp(scores, dim=-1)
    new = torch.maximum(peak, scores.amax(-1))
    base = torch.nan_to_num(new, neginf=0.0)
    keep, add = torch.exp(peak - base), torch.exp(lse - base)
    mean = torch.nan_to_num(torch.softmax(scores, dim=-1)) @ values
    return new, total * keep + add, mixed * keep[..., None] + mean * add[..., None]

# %% right in float64, one key after the other
def add_tile(peak, total, mixed, scores, values):
    dtype = peak.dtype
    peak, total, mixed = peak.double(), total.double(), mixed.double()
    for j in range(scores.shape[-1]):
        s = scores[..., j].double()
        new = torch.maximum(peak, s)
        base = new.clamp(min=-1e30)
        keep, w = (peak - base).exp(), (s - base).exp()
        total = total * keep + w
        mixed = mixed * keep[..., None] + w[..., None] * values[..., j, :].double().unsqueeze(-2)
        peak = new
    return peak.to(dtype), total.to(dtype), mixed.to(dtype)

# %% wrong STUB untouched
def add_tile(peak, total, mixed, scores, values):
    raise NotImplementedError("your code here")

# %% wrong SOFTMAX-TRIPLE the quotient alone
def add_tile(peak, total, mixed, scores, values):
    new = torch.maximum(peak, scores.amax(-1))
    keep, p = (peak - new).exp(), (scores - new[..., None]).exp()
    return (mixed * keep[..., None] + p @ values) / (total * keep + p.sum(-1))[..., None]

# %% wrong SOFTMAX-NO-RESCALE never looks back
def add_tile(peak, total, mixed, scores, values):
    new = torch.maximum(peak, scores.amax(-1))
    p = (scores - new[..., None]).exp()
    return new, total + p.sum(-1), mixed + p @ values

# %% wrong SOFTMAX-HALF-RESCALED scales the total alone
def add_tile(peak, total, mixed, scores, values):
    new = torch.maximum(peak, scores.amax(-1))
    keep, p = (peak - new).exp(), (scores - new[..., None]).exp()
    return new, total * keep + p.sum(-1), mixed + p @ values

# %% wrong SOFTMAX-HALF-RESCALED scales mixed alone
def add_tile(peak, total, mixed, scores, values):
    new = torch.maximum(peak, scores.amax(-1))
    keep, p = (peak - new).exp(), (scores - new[..., None]).exp()
    return new, total + p.sum(-1), mixed * keep[..., None] + p @ values

# %% wrong SOFTMAX-RESCALE-UP the factor upside down, guarded on the first tile
def add_tile(peak, total, mixed, scores, values):
    new = torch.maximum(peak, scores.amax(-1))
    keep = torch.where(peak.isinf(), torch.zeros_like(peak), (new - peak).exp())
    p = (scores - new[..., None]).exp()
    return new, total * keep + p.sum(-1), mixed * keep[..., None] + p @ values

# %% wrong SOFTMAX-NO-PEAK a softmax without a maximum
def add_tile(peak, total, mixed, scores, values):
    p = scores.exp()
    return torch.maximum(peak, scores.amax(-1)), total + p.sum(-1), mixed + p @ values

# %% wrong SOFTMAX-DIVIDED divides in every tile
def add_tile(peak, total, mixed, scores, values):
    new = torch.maximum(peak, scores.amax(-1))
    keep, p = (peak - new).exp(), (scores - new[..., None]).exp()
    total = total * keep + p.sum(-1)
    return new, total, (mixed * keep[..., None] + p @ values) / total[..., None]

# %% wrong SOFTMAX-PEAK-LOST the tile's own maximum
def add_tile(peak, total, mixed, scores, values):
    new = scores.amax(-1)
    keep, p = (peak - new).exp(), (scores - new[..., None]).exp()
    return new, total * keep + p.sum(-1), mixed * keep[..., None] + p @ values

# %% wrong SOFTMAX-TILE-PEAK weights against the tile's own maximum
def add_tile(peak, total, mixed, scores, values):
    top = scores.amax(-1)
    new = torch.maximum(peak, top)
    keep, p = (peak - new).exp(), (scores - top[..., None]).exp()
    return new, total * keep + p.sum(-1), mixed * keep[..., None] + p @ values

# %% wrong SOFTMAX-OLD-PEAK weights against the old maximum, but for the first tile
def add_tile(peak, total, mixed, scores, values):
    new = torch.maximum(peak, scores.amax(-1))
    base = torch.where(peak.isinf(), new, peak)
    keep, p = (peak - new).exp(), (scores - base[..., None]).exp()
    return new, total * keep + p.sum(-1), mixed * keep[..., None] + p @ values

# %% wrong SOFTMAX-OVERFLOW a quotient of exponentials
def add_tile(peak, total, mixed, scores, values):
    new = torch.maximum(peak, scores.amax(-1))
    keep, p = peak.exp() / new.exp(), (scores - new[..., None]).exp()
    return new, total * keep + p.sum(-1), mixed * keep[..., None] + p @ values

# %% wrong SOFTMAX-EMPTY-NAN -inf minus -inf
def add_tile(peak, total, mixed, scores, values):
    new = torch.maximum(peak, scores.amax(-1))
    keep, p = (peak - new).exp(), (scores - new[..., None]).exp()
    return new, total * keep + p.sum(-1), mixed * keep[..., None] + p @ values

# %% wrong SOFTMAX-EMPTY-PEAK hands back what stood in for -inf
def add_tile(peak, total, mixed, scores, values):
    new = torch.maximum(peak, scores.amax(-1))
    new = new.masked_fill(new == EMPTY, 0.0)
    keep, p = (peak - new).exp(), (scores - new[..., None]).exp()
    return new, total * keep + p.sum(-1), mixed * keep[..., None] + p @ values

# %% wrong INPLACE scales the old sums in place
def add_tile(peak, total, mixed, scores, values):
    new = torch.maximum(peak, scores.amax(-1))
    base = new.masked_fill(new == EMPTY, 0.0)
    keep, p = (peak - base).exp(), (scores - base[..., None]).exp()
    total *= keep
    total += p.sum(-1)
    return new, total, mixed * keep[..., None] + p @ values

# %% wrong SOFTMAX-EMPTY-NAN a guard for tiles of nothing alone
def add_tile(peak, total, mixed, scores, values):
    new = torch.maximum(peak, scores.amax(-1))
    if bool((new == EMPTY).all()):
        return new, total.clone(), mixed.clone()
    keep, weights = torch.exp(peak - new), torch.exp(scores - new.unsqueeze(-1))
    return new, keep * total + weights.sum(-1), keep.unsqueeze(-1) * mixed + weights @ values

# %% wrong SOFTMAX-ROWS one row that is empty empties all
def add_tile(peak, total, mixed, scores, values):
    if (peak == EMPTY).any():
        peak, total, mixed = torch.full_like(peak, EMPTY), torch.zeros_like(total), torch.zeros_like(mixed)
    new = torch.maximum(peak, scores.amax(-1))
    base = new.masked_fill(new == EMPTY, 0.0)
    keep, weights = torch.exp(peak - base), torch.exp(scores - base.unsqueeze(-1))
    return new, keep * total + weights.sum(-1), keep.unsqueeze(-1) * mixed + weights @ values
