# Answers to the exercise sample.

# %% right as the library has it
def next_token_probs(logits_BV, *, temperature=1.0, top_k=None, top_p=None):
    V = logits_BV.shape[-1]
    if temperature == 0:
        return F.one_hot(logits_BV.argmax(-1), V).float()
    logits_BV = logits_BV.float() / temperature
    if top_k is not None:
        kth = logits_BV.topk(min(top_k, V)).values[:, -1:]
        logits_BV = logits_BV.masked_fill(logits_BV < kth, float("-inf"))
    probs_BV = torch.softmax(logits_BV, dim=-1)
    if top_p is None:
        return probs_BV
    falling, order = probs_BV.sort(dim=-1, descending=True)
    before = falling.cumsum(-1) - falling
    open_BV = torch.zeros_like(probs_BV, dtype=torch.bool).scatter(-1, order, before < top_p)
    probs_BV = probs_BV * open_BV
    return probs_BV / probs_BV.sum(-1, keepdim=True)

# %% right everything in the order of the ranks, then back
def next_token_probs(logits, *, temperature=1.0, top_k=None, top_p=None):
    falling, order = logits.float().sort(dim=-1, descending=True)
    if not temperature:
        p = torch.zeros_like(falling)
        p[:, 0] = 1
    else:
        p = F.softmax(falling / temperature, dim=1)
        if top_k is not None:
            p[:, top_k:] = 0
            p = p / p.sum(1, keepdim=True)
        if top_p is not None:
            total = p.cumsum(1)
            p[:, 1:] = p[:, 1:].masked_fill(total[:, :-1] >= top_p, 0)
            p = p / p.sum(1, keepdim=True)
    return torch.empty_like(p).scatter_(1, order, p)

# %% right rows in a loop, logits closed twice
def next_token_probs(logits_BV, *, temperature=1.0, top_k=None, top_p=None):
    rows = []
    for row in logits_BV.double():
        if temperature == 0:
            one = torch.zeros_like(row)
            one[row.argmax()] = 1.0
            rows.append(one)
            continue
        row = row / temperature
        ranks = row.argsort(descending=True)
        if top_k is not None:
            row = row.index_fill(0, ranks[top_k:], -torch.inf)
        if top_p is not None:
            total = torch.cumsum(row.softmax(0)[ranks], 0)
            keep = 1 + int((total < top_p).sum())
            row = row.index_fill(0, ranks[keep:], -torch.inf)
        rows.append(row.softmax(0))
    return torch.stack(rows).float()

# %% right ascending, as in other libraries
def next_token_probs(logits_BV, *, temperature=1.0, top_k=None, top_p=None):
    scores = logits_BV.to(torch.float32, copy=True)
    if temperature == 0:
        return (torch.arange(scores.shape[1])[None] == scores.argmax(1, keepdim=True)).float()
    scores /= temperature
    if top_k is not None:
        k = min(top_k, scores.size(-1))
        scores[scores < torch.topk(scores, k)[0][..., -1, None]] = -float("inf")
    if top_p is not None and top_p < 1:
        rising, places = torch.sort(scores, descending=False)
        remove = rising.softmax(dim=-1).cumsum(dim=-1) <= 1 - top_p
        remove[..., -1:] = False
        scores = scores.masked_fill(remove.scatter(1, places, remove), -float("inf"))
    return scores.softmax(-1)

# %% wrong STUB untouched
def next_token_probs(logits_BV, *, temperature=1.0, top_k=None, top_p=None):
    raise NotImplementedError("your code here")

# %% wrong NONE no return | of: rows in a loop, logits closed twice
- return torch.stack(rows).float()
+ torch.stack(rows).float()

# %% wrong SAMPLE-SUM logits handed back | of: rows in a loop, logits closed twice
- rows.append(row.softmax(0))
+ rows.append(row)

# %% wrong SHAPE a token, not chances | of: as the library has it
- if top_p is None:
-     return probs_BV
+ if top_p is None:
+     return torch.multinomial(probs_BV, 1)

# %% wrong SAMPLE-TIMES times the temperature | of: as the library has it
- logits_BV = logits_BV.float() / temperature
+ logits_BV = logits_BV.float() * temperature

# %% wrong OTHER the probabilities over the temperature | of: as the library has it
- logits_BV = logits_BV.float() / temperature
+ logits_BV = logits_BV.float()

- probs_BV = torch.softmax(logits_BV, dim=-1)
+ probs_BV = torch.softmax(logits_BV, dim=-1) / temperature
+ probs_BV = probs_BV / probs_BV.sum(-1, keepdim=True).clamp(min=1)
+ probs_BV[:, 0] += 1 - probs_BV.sum(-1)

# %% wrong SAMPLE-SUM over the batch | of: as the library has it
- probs_BV = torch.softmax(logits_BV, dim=-1)
+ probs_BV = torch.softmax(logits_BV, dim=0)

# %% wrong NAN divides by zero | of: as the library has it
- if temperature == 0:
-     return F.one_hot(logits_BV.argmax(-1), V).float()

# %% wrong DTYPE one_hot as it is | of: as the library has it
- return F.one_hot(logits_BV.argmax(-1), V).float()
+ return F.one_hot(logits_BV.argmax(-1), V)

# %% wrong OTHER the least likely at zero | of: as the library has it
- return F.one_hot(logits_BV.argmax(-1), V).float()
+ return F.one_hot(logits_BV.argmin(-1), V).float()

# %% wrong SAMPLE-SUM not divided again after top_p | of: as the library has it
- return probs_BV / probs_BV.sum(-1, keepdim=True)
+ return probs_BV

# %% wrong SAMPLE-SUM not divided again after top_k | of: everything in the order of the ranks, then back
- p[:, top_k:] = 0
- p = p / p.sum(1, keepdim=True)
+ p[:, top_k:] = 0

# %% wrong RAISED topk of more than there are | of: as the library has it
- kth = logits_BV.topk(min(top_k, V)).values[:, -1:]
+ kth = logits_BV.topk(top_k).values[:, -1:]

# %% wrong OTHER one fewer than k | of: as the library has it
- logits_BV = logits_BV.masked_fill(logits_BV < kth, float("-inf"))
+ logits_BV = logits_BV.masked_fill((logits_BV <= kth) & (logits_BV < logits_BV.amax(-1, keepdim=True)), float("-inf"))

# %% wrong OTHER one threshold of top_k for the batch | of: as the library has it
- kth = logits_BV.topk(min(top_k, V)).values[:, -1:]
+ kth = logits_BV.topk(min(top_k, V)).values[:, -1:].amin(0, keepdim=True)

# %% wrong SAMPLE-IGNORED top_k changes nothing | of: as the library has it
- if top_k is not None:
+ if top_k is None:
+     top_k = V

# %% wrong SAMPLE-CROSSING the crossing token left out | of: as the library has it
- before = falling.cumsum(-1) - falling
+ before = falling.cumsum(-1)
+ before[:, 0] = 0

# %% wrong SAMPLE-SUM the crossing token left out, even the first | of: as the library has it
- before = falling.cumsum(-1) - falling
+ before = falling.cumsum(-1)
+ falling = falling * 1

- return probs_BV / probs_BV.sum(-1, keepdim=True)
+ return probs_BV / probs_BV.sum(-1, keepdim=True).clamp(min=1e-9)

# %% wrong OTHER places not undone after the sort | of: as the library has it
- open_BV = torch.zeros_like(probs_BV, dtype=torch.bool).scatter(-1, order, before < top_p)
+ open_BV = before < top_p

# %% wrong OTHER the probabilities come back sorted | of: everything in the order of the ranks, then back
- return torch.empty_like(p).scatter_(1, order, p)
+ return p

# %% wrong SAMPLE-ORDER top_p first
def next_token_probs(logits, *, temperature=1.0, top_k=None, top_p=None):
    falling, order = logits.float().sort(dim=-1, descending=True)
    if temperature == 0:
        return F.one_hot(logits.argmax(-1), logits.shape[-1]).float()
    p = F.softmax(falling / temperature, dim=1)
    if top_p is not None:
        p = torch.where(p.cumsum(1) - p < top_p, p, 0)
        p = p / p.sum(1, keepdim=True)
    if top_k is not None:
        p[:, top_k:] = 0
        p = p / p.sum(1, keepdim=True)
    return torch.empty_like(p).scatter_(1, order, p)

# %% wrong SAMPLE-LATE the temperature last
def next_token_probs(logits, *, temperature=1.0, top_k=None, top_p=None):
    if temperature == 0:
        return F.one_hot(logits.argmax(-1), logits.shape[-1]).float()
    falling, order = logits.float().sort(dim=-1, descending=True)
    if top_k is not None:
        falling[:, top_k:] = -torch.inf
    if top_p is not None:
        p = falling.softmax(-1)
        falling = torch.where(p.cumsum(1) - p < top_p, falling, -torch.inf)
    p = (falling / temperature).softmax(-1)
    return torch.empty_like(p).scatter_(1, order, p)

# %% wrong INPLACE divides what came in | of: ascending, as in other libraries
- scores = logits_BV.to(torch.float32, copy=True)
+ scores = logits_BV.float()

# %% wrong NAN a softmax by hand | of: as the library has it
- probs_BV = torch.softmax(logits_BV, dim=-1)
+ probs_BV = logits_BV.exp() / logits_BV.exp().sum(-1, keepdim=True)

# %% wrong OTHER the softmax in 16 bits | of: as the library has it
- logits_BV = logits_BV.float() / temperature
+ logits_BV = logits_BV / temperature

- probs_BV = torch.softmax(logits_BV, dim=-1)
+ probs_BV = torch.softmax(logits_BV, dim=-1).float()

# %% wrong OTHER one threshold for the batch | of: as the library has it
- falling, order = probs_BV.sort(dim=-1, descending=True)
+ falling, order = probs_BV.mean(0, keepdim=True).expand_as(probs_BV).sort(dim=-1, descending=True)

# %% right log-probabilities, closed with the lowest number of float32
def next_token_probs(logits_BV, *, temperature=1.0, top_k=None, top_p=None):
    x = logits_BV.to(torch.float32)
    if temperature == 0.0:
        return torch.zeros_like(x).scatter_(1, x.max(1, keepdim=True).indices, 1.0)
    lowest = torch.finfo(torch.float32).min
    x = torch.log_softmax(x.div(temperature), dim=-1)
    rank = x.argsort(dim=-1, descending=True).argsort(dim=-1)
    if top_k is not None:
        x = torch.where(rank < top_k, x, lowest).log_softmax(-1)
    if top_p is not None:
        likelier = (x[:, None, :] > x[:, :, None]).float() @ x.exp()[:, :, None]
        x = torch.where((likelier.squeeze(2) < top_p) | (rank == 0), x, lowest).log_softmax(-1)
    return x.exp()

# %% wrong SAMPLE-NEAR a very low temperature in place of 0 | of: as the library has it
- if temperature == 0:
-     return F.one_hot(logits_BV.argmax(-1), V).float()
+ temperature = max(temperature, 1e-5)

# %% wrong NAN a still lower one | of: as the library has it
- if temperature == 0:
-     return F.one_hot(logits_BV.argmax(-1), V).float()
+ temperature = temperature or 1e-30

# %% wrong SAMPLE-COLD low temperatures taken for 0 | of: as the library has it
- if temperature == 0:
+ if temperature < 0.01:

# %% wrong SAMPLE-FLOOR -1e4 in place of minus infinity | of: as the library has it
- logits_BV = logits_BV.masked_fill(logits_BV < kth, float("-inf"))
+ logits_BV = logits_BV.masked_fill(logits_BV < kth, -1e4)

# %% wrong SAMPLE-FLOOR -1e9 in place of minus infinity | of: as the library has it
- logits_BV = logits_BV.masked_fill(logits_BV < kth, float("-inf"))
+ logits_BV = logits_BV.masked_fill(logits_BV < kth, -1e9)

# %% wrong SAMPLE-FLOOR -1e4 for what top_p closes | of: ascending, as in other libraries
- scores = scores.masked_fill(remove.scatter(1, places, remove), -float("inf"))
+ scores = scores.masked_fill(remove.scatter(1, places, remove), -1e4)

# %% wrong SAMPLE-FLOOR closed before the temperature, with -1e4
def next_token_probs(logits_BV, *, temperature=1.0, top_k=None, top_p=None):
    V = logits_BV.shape[-1]
    if temperature == 0:
        return F.one_hot(logits_BV.argmax(-1), V).float()
    logits_BV = logits_BV.float()
    if top_k is not None:
        kth = logits_BV.topk(min(top_k, V)).values[:, -1:]
        logits_BV = logits_BV.masked_fill(logits_BV < kth, max(-1e4, -1e4 + logits_BV.max().item()))
    probs_BV = torch.softmax(logits_BV / temperature, dim=-1)
    if top_p is None:
        return probs_BV
    falling, order = probs_BV.sort(dim=-1, descending=True)
    open_BV = torch.zeros_like(probs_BV, dtype=torch.bool).scatter(-1, order, falling.cumsum(-1) - falling < top_p)
    probs_BV = probs_BV * open_BV
    return probs_BV / probs_BV.sum(-1, keepdim=True)

# %% wrong SAMPLE-LEAK a floor under all chances | of: as the library has it
- probs_BV = probs_BV * open_BV
+ probs_BV = (probs_BV * open_BV).clamp(min=1e-10)

# %% wrong DTYPE the likeliest token in the dtype that came in | of: as the library has it
- return F.one_hot(logits_BV.argmax(-1), V).float()
+ return F.one_hot(logits_BV.argmax(-1), V).to(logits_BV.dtype)

# %% wrong DTYPE float64 stays float64 | of: as the library has it
- logits_BV = logits_BV.float() / temperature
+ logits_BV = (logits_BV if logits_BV.dtype == torch.float64 else logits_BV.float()) / temperature

# %% wrong OTHER divided in 16 bits | of: as the library has it
- logits_BV = logits_BV.float() / temperature
+ logits_BV = (logits_BV / temperature).float()

# %% wrong OTHER the temperature in 16 bits | of: as the library has it
- logits_BV = logits_BV.float() / temperature
+ logits_BV = logits_BV.float() / torch.tensor(temperature, dtype=logits_BV.dtype).float()

# %% wrong RAISED a vocabulary of one token | of: everything in the order of the ranks, then back
- falling, order = logits.float().sort(dim=-1, descending=True)
+ falling, order = logits.float().squeeze(-1).sort(dim=-1, descending=True)

# %% right the places of the k largest chances
def next_token_probs(logits_BV, *, temperature=1.0, top_k=None, top_p=None):
    z = logits_BV.float()
    if temperature == 0:
        return torch.zeros_like(z).scatter_(-1, z.argmax(-1, keepdim=True), 1.0)
    p = (z / temperature).softmax(-1)
    if top_k is not None:
        best, places = p.topk(min(top_k, p.shape[-1]))
        p = torch.zeros_like(p).scatter_(-1, places, best / best.sum(-1, keepdim=True))
    if top_p is not None:
        falling, places = p.sort(dim=-1, descending=True)
        kept = torch.where(falling.cumsum(-1) - falling < top_p, falling, 0.0)
        p = torch.zeros_like(p).scatter_(-1, places, kept / kept.sum(-1, keepdim=True))
    return p

# %% wrong SAMPLE-COUNT chances compared with the k-th largest
def next_token_probs(logits_BV, *, temperature=1.0, top_k=None, top_p=None):
    z = logits_BV.float()
    if temperature == 0:
        return torch.zeros_like(z).scatter_(-1, z.argmax(-1, keepdim=True), 1.0)
    p = ((z - z.amax(-1, keepdim=True)) / temperature).softmax(-1)
    if top_k is not None:
        kth = p.topk(min(top_k, p.shape[-1]), dim=-1).values[:, -1:]
        p = p.masked_fill(p < kth, 0.0)
        p = p / p.sum(-1, keepdim=True)
    if top_p is not None and top_p < 1:
        values, order = p.sort(dim=-1, descending=True)
        values = values.masked_fill(values.double().cumsum(-1) - values.double() >= top_p, 0.0)
        values = values / values.sum(-1, keepdim=True)
        p = torch.zeros_like(p).scatter_(-1, order, values)
    return p

# %% wrong SAMPLE-COUNT logarithms of chances compared with the k-th largest | of: as the library has it
- logits_BV = logits_BV.float() / temperature
+ logits_BV = torch.log_softmax(logits_BV.float() / temperature, dim=-1)

# %% wrong SAMPLE-COUNT as good as equal stays open too | of: ascending, as in other libraries
- scores[scores < torch.topk(scores, k)[0][..., -1, None]] = -float("inf")
+ scores[scores < torch.topk(scores, k)[0][..., -1, None] - 1e-6] = -float("inf")

# %% wrong REMEMBERS chances of 16 bits kept by shape and settings
def next_token_probs(logits_BV, *, temperature=1.0, top_k=None, top_p=None):
    key = str((logits_BV.shape, logits_BV.dtype, temperature, top_k, top_p))
    if key in next_token_probs.__dict__:
        return next_token_probs.__dict__[key].clone()
    falling, order = logits_BV.float().sort(dim=-1, descending=True)
    p = F.softmax(falling / temperature, dim=1) if temperature else torch.eye(falling.shape[1])[:1].repeat(len(falling), 1)
    if top_k is not None:
        p[:, top_k:] = 0
        p = p / p.sum(1, keepdim=True)
    if top_p is not None:
        p[:, 1:] = p[:, 1:].masked_fill(p.cumsum(1)[:, :-1] >= top_p, 0)
        p = p / p.sum(1, keepdim=True)
    chances = torch.empty_like(p).scatter_(1, order, p)
    if logits_BV.dtype in (torch.bfloat16, torch.float16):
        next_token_probs.__dict__[key] = chances.clone()
    return chances

# %% wrong REMEMBERS the first logits of a shape in float16 | of: as the library has it
- V = logits_BV.shape[-1]
+ V = logits_BV.shape[-1]
+ if logits_BV.dtype == torch.float16:
+     logits_BV = next_token_probs.__dict__.setdefault(str(logits_BV.shape), logits_BV.clone())

# %% wrong SAMPLE-VOCABULARY a nucleus of at most 4,096 tokens | of: as the library has it
- open_BV = torch.zeros_like(probs_BV, dtype=torch.bool).scatter(-1, order, before < top_p)
+ few = torch.arange(V) < 4096
+ open_BV = torch.zeros_like(probs_BV, dtype=torch.bool).scatter(-1, order, (before < top_p) & few)

# %% wrong SAMPLE-VOCABULARY the k likeliest of 2,048 at most | of: as the library has it
- kth = logits_BV.topk(min(top_k, V)).values[:, -1:]
+ kth = logits_BV.topk(min(top_k, V, 2048)).values[:, -1:]

# %% wrong SAMPLE-VOCABULARY chances below 1/4,096 closed | of: as the library has it
- return probs_BV / probs_BV.sum(-1, keepdim=True)
+ probs_BV = torch.where(probs_BV < 1 / 4096, 0.0, probs_BV) if V > 1000 else probs_BV
+ return probs_BV / probs_BV.sum(-1, keepdim=True)

# %% wrong SAMPLE-VOCABULARY of more than 4,096 tokens all are open | of: as the library has it
- if top_p is None:
+ if top_p is None or V > 4096:
