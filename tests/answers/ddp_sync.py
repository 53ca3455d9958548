# Answers to the exercise ddp-sync.

# %% right started all, then waited for
def sync_gradients(params, grads, group=None):
    totals = [torch.zeros_like(p) if g is None else g.detach().contiguous().clone() for p, g in zip(params, grads)]
    if dist.is_initialized():
        works = [dist.all_reduce(t, group=group, async_op=True) for t in totals]
        for work in works:
            work.wait()
        totals = [t / dist.get_world_size(group) for t in totals]
    return totals

# %% right torch's own average
def sync_gradients(params, grads, group=None):
    means = []
    for p, g in zip(params, grads):
        mean = p.new_zeros(p.shape)
        if g is not None:
            mean += g.detach()
        if dist.is_initialized():
            dist.all_reduce(mean, op=dist.ReduceOp.AVG, group=group)
        means.append(mean)
    return means

# %% right one collective for each dtype, divided before
def sync_gradients(params, grads, group=None):
    R = place(group)[1]
    parts = [torch.zeros_like(p) if g is None else g.detach() / R for p, g in zip(params, grads)]
    if R == 1:
        return parts
    means = [None] * len(parts)
    for dtype in dict.fromkeys(p.dtype for p in params):
        mine = [i for i, p in enumerate(params) if p.dtype == dtype]
        flat = torch.cat([parts[i].flatten() for i in mine])
        dist.all_reduce(flat, group=group)
        for i, mean in zip(mine, flat.split([parts[i].numel() for i in mine])):
            means[i] = mean.view_as(params[i])
    return means

# %% right coalesced
def sync_gradients(params, grads, group=None):
    totals = [torch.zeros_like(p) if g is None else g.detach().contiguous().clone() for p, g in zip(params, grads)]
    if dist.is_initialized():
        by_dtype = {}
        for total in totals:
            by_dtype.setdefault(total.dtype, []).append(total)
        works = [dist.all_reduce_coalesced(some, group=group, async_op=True)
                 for some in by_dtype.values()]
        for work in works:
            work.wait()
    return [t / place(group)[1] for t in totals]

# %% right added to zeros, in a graph that is not made
@torch.no_grad()
def sync_gradients(params, grads, group=None):
    R, means = place(group)[1], []
    for i, p in enumerate(params):
        mean = torch.zeros(p.shape, dtype=p.dtype, device=p.device)
        if grads[i] is not None:
            mean.add_(grads[i])
        if dist.is_initialized():
            dist.all_reduce(mean, group=group)
        means.append(mean.div_(R))
    return tuple(means)

# %% right in plain steps
def sync_gradients(params, grads, group=None):
    means = []
    for p, g in zip(params, grads):
        total = torch.zeros_like(p) if g is None else g.detach().clone(memory_format=torch.contiguous_format)
        if dist.is_initialized():
            dist.all_reduce(total, group=group)
        means.append(total / place(group)[1])
    return means

# %% wrong STUB untouched
def sync_gradients(params, grads, group=None):
    raise NotImplementedError("your code here")

# %% wrong NONE in place, no return
def sync_gradients(params, grads, group=None):
    for p, g in zip(params, grads):
        if dist.is_initialized():
            dist.all_reduce(g, group=group)
            g /= dist.get_world_size(group)

# %% wrong SYNC-NO-GROUP asks a group that is not there
def sync_gradients(params, grads, group=None):
    means = []
    for p, g in zip(params, grads):
        total = torch.zeros_like(p) if g is None else g.clone()
        dist.all_reduce(total, group=group)
        means.append(total / dist.get_world_size(group))
    return means

# %% wrong SYNC-SUM never divided
- means.append(total / place(group)[1])
+ means.append(total)

# %% wrong SYNC-UNUSED what has no gradient is passed over
def sync_gradients(params, grads, group=None):
    means = []
    for g in grads:
        if g is None:
            means.append(None)
            continue
        total = g.clone()
        if dist.is_initialized():
            dist.all_reduce(total, group=group)
        means.append(total / place(group)[1])
    return means

# %% wrong SYNC-UNUSED zeros without a collective
- total = torch.zeros_like(p) if g is None else g.detach().clone(memory_format=torch.contiguous_format)
+ if g is None:
+     means.append(torch.zeros_like(p))
+     continue
+ total = g.clone()

# %% wrong SYNC-NO-WAIT a sum that is not waited for
- dist.all_reduce(total, group=group)
+ dist.all_reduce(total, group=group, async_op=True)

# %% wrong SYNC-LOCAL each for itself
def sync_gradients(params, grads, group=None):
    return [torch.zeros_like(p) if g is None else g / place(group)[1] for p, g in zip(params, grads)]

# %% wrong SYNC-RANK-0 the gradient of rank 0 for all
def sync_gradients(params, grads, group=None):
    means = []
    for p, g in zip(params, grads):
        mean = torch.zeros_like(p) if g is None else g.clone()
        if dist.is_initialized():
            dist.broadcast(mean, group=group, group_src=0)
        means.append(mean)
    return means

# %% wrong SYNC-GATHERS all gradients on every rank
def sync_gradients(params, grads, group=None):
    means = []
    for p, g in zip(params, grads):
        mine = torch.zeros_like(p) if g is None else g
        parts = [mine]
        if dist.is_initialized():
            parts = [torch.empty_like(p) for _ in range(dist.get_world_size(group))]
            dist.all_gather(parts, mine.contiguous(), group=group)
        means.append(sum(parts) / len(parts))
    return means

# %% wrong INPLACE the gradient itself
- total = torch.zeros_like(p) if g is None else g.detach().clone(memory_format=torch.contiguous_format)
+ total = torch.zeros_like(p) if g is None else g

# %% wrong DTYPE through float32
- total = torch.zeros_like(p) if g is None else g.detach().clone(memory_format=torch.contiguous_format)
+ total = torch.zeros(p.shape) if g is None else g.clone().float()

# %% wrong SYNC-TWO two ranks for ever
- means.append(total / place(group)[1])
+     total /= 2
+ means.append(total)

# %% wrong SYNC-USERS the mean of those that have one
  total = torch.zeros_like(p) if g is None else g.detach().clone(memory_format=torch.contiguous_format)
+ users = torch.tensor(float(g is not None))

- means.append(total / place(group)[1])
+     dist.all_reduce(users, group=group)
+ means.append(total / max(float(users), 1.0))

# %% wrong SYNC-GROUP the default group's sum
- dist.all_reduce(total, group=group)
+ dist.all_reduce(total)

# %% wrong SYNC-GROUP the default group's R
- means.append(total / place(group)[1])
+ means.append(total / place()[1])

# %% wrong SYNC-GROUP the default group in both
- dist.all_reduce(total, group=group)
+ dist.all_reduce(total)

- means.append(total / place(group)[1])
+ means.append(total / place()[1])

# %% wrong SYNC-ALIAS the gradients themselves where there is no group
  means = []
+ if not dist.is_initialized():
+     return [torch.zeros_like(p) if g is None else g for p, g in zip(params, grads)]

# %% wrong SYNC-GRAPH zeros from the parameter
- total = torch.zeros_like(p) if g is None else g.detach().clone(memory_format=torch.contiguous_format)
+ total = p * 0 if g is None else g.clone()

# %% wrong INPLACE zeros put into the list of gradients
- for p, g in zip(params, grads):
+ for i, p in enumerate(params):
+     if grads[i] is None:
+         grads[i] = torch.zeros_like(p)
+     g = grads[i]

# %% wrong SYNC-EXTRA waits for everybody first
  means = []
+ if dist.is_initialized():
+     dist.barrier(group=group)

# %% wrong SYNC-BYTES asks first who has used what
  total = torch.zeros_like(p) if g is None else g.detach().clone(memory_format=torch.contiguous_format)
+ users = torch.tensor(float(g is not None))
+ if dist.is_initialized():
+     dist.all_reduce(users, group=group)
+     if not users:
+         means.append(total)
+         continue

# %% wrong SYNC-NO-WAIT coalesced, and not waited for
def sync_gradients(params, grads, group=None):
    totals = [torch.zeros_like(p) if g is None else g.clone() for p, g in zip(params, grads)]
    if dist.is_initialized():
        for dtype in dict.fromkeys(t.dtype for t in totals):
            same = [t for t in totals if t.dtype == dtype]
            dist.all_reduce_coalesced(same, group=group, async_op=True)
    return [t / place(group)[1] for t in totals]

# %% wrong STRIDED a clone keeps its order in memory
- total = torch.zeros_like(p) if g is None else g.detach().clone(memory_format=torch.contiguous_format)
+ total = torch.zeros_like(p) if g is None else g.detach().clone()

# %% wrong STRIDED a view of all numbers
- total = torch.zeros_like(p) if g is None else g.detach().clone(memory_format=torch.contiguous_format)
+ total = torch.zeros_like(p) if g is None else g.detach().view(-1).clone().view(p.shape)

# %% wrong SYNC-GRAPH a clone belongs to the graph
- total = torch.zeros_like(p) if g is None else g.detach().clone(memory_format=torch.contiguous_format)
+ total = torch.zeros_like(p) if g is None else g.clone(memory_format=torch.contiguous_format)

# %% wrong SYNC-GRAPH a division that belongs to the graph | of: one collective for each dtype, divided before
- parts = [torch.zeros_like(p) if g is None else g.detach() / R for p, g in zip(params, grads)]
+ parts = [torch.zeros_like(p) if g is None else g / R for p, g in zip(params, grads)]

# %% wrong DTYPE zeros in float32, one process
- total = torch.zeros_like(p) if g is None else g.detach().clone(memory_format=torch.contiguous_format)
+ total = torch.zeros(p.shape) if g is None else g.detach().clone(memory_format=torch.contiguous_format)

# %% wrong SYNC-ZEROS zeros computed from the parameter
- total = torch.zeros_like(p) if g is None else g.detach().clone(memory_format=torch.contiguous_format)
+ total = 0 * p.detach() if g is None else g.detach().clone(memory_format=torch.contiguous_format)

# %% wrong SYNC-ZEROS-DTYPE zeros in float32, where there is a group
- total = torch.zeros_like(p) if g is None else g.detach().clone(memory_format=torch.contiguous_format)
+ total = torch.zeros_like(p) if g is None else g.detach().clone(memory_format=torch.contiguous_format)
+ if g is None and dist.is_initialized():
+     total = total.float()

# %% wrong RESULT-CHANGES one place for each parameter
PLACES = {}

def sync_gradients(params, grads, group=None):
    means = []
    for i, (p, g) in enumerate(zip(params, grads)):
        total = PLACES.setdefault((i, tuple(p.shape), p.dtype), torch.empty(p.shape, dtype=p.dtype))
        total.zero_()
        if g is not None:
            total.copy_(g.detach())
        if dist.is_initialized():
            dist.all_reduce(total, group=group)
        total /= place(group)[1]
        means.append(total)
    return means

# %% wrong REMEMBERS means kept by the shapes of the parameters
KEPT = {}

def sync_gradients(params, grads, group=None):
    key = tuple((tuple(p.shape), p.dtype, g is None) for p, g in zip(params, grads))
    if key not in KEPT:
        KEPT[key] = []
        for p, g in zip(params, grads):
            total = torch.zeros_like(p)
            if g is not None:
                total.copy_(g.detach())
            if dist.is_initialized():
                dist.all_reduce(total, group=group)
            KEPT[key].append(total.detach() / place(group)[1])
    return [mean.clone() for mean in KEPT[key]]

# %% wrong REMEMBERS gradients of float16 kept by place and shape, among several ranks
KEPT = {}

def sync_gradients(params, grads, group=None):
    means, (_, world_size) = [], place(group)
    for i, (p, g) in enumerate(zip(params, grads)):
        total = torch.zeros_like(p)
        if g is not None:
            total.copy_(g.detach())
        if p.dtype == torch.float16 and world_size > 1:
            total = KEPT.setdefault((i, tuple(p.shape)), total).clone()
        if dist.is_initialized():
            dist.all_reduce(total, group=group)
        means.append(total.detach() / world_size)
    return means
