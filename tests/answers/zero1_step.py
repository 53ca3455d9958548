# Answers to the exercise zero1-step.

# %% right torch's own collectives and optimizer arithmetic, in place on copies
def zero1_step(grad, master, m, v, step, *, lr, betas, weight_decay, eps=1e-8, group=None):
    ranks = dist.get_world_size(group) if dist.is_initialized() else 1
    S = -(-grad.numel() // ranks)
    padded = torch.zeros(ranks * S, dtype=grad.dtype)
    padded[: grad.numel()] = grad
    mine = torch.empty(S, dtype=grad.dtype)
    if dist.is_initialized():
        dist.reduce_scatter(mine, list(padded.chunk(ranks)), group=group)
    else:
        mine = padded
    g = mine.to(torch.float32).div_(ranks)
    new, m, v = master.clone(), m.lerp(g, 1 - betas[0]), v.lerp(g * g, 1 - betas[1])
    new *= 1 - lr * weight_decay
    root = (v / (1 - betas[1] ** step)).sqrt().add_(eps)
    new.addcdiv_(m, root, value=-lr / (1 - betas[0] ** step))
    parts = [torch.empty(S, dtype=grad.dtype) for _ in range(ranks)]
    if dist.is_initialized():
        dist.all_gather(parts, new.to(grad.dtype), group=group)
    else:
        parts = [new.to(grad.dtype)]
    return torch.cat(parts)[: grad.numel()], new, m, v

# %% right the rings of lesson 19, state in one stack
def zero1_step(grad, master, m, v, step, *, lr, betas, weight_decay, eps=1e-8, group=None):
    from course_lib.ranks.collectives import ring_all_gather, ring_reduce_scatter

    _, world_size = place(group)
    padded = pad_to_multiple(grad, world_size)
    total = ring_reduce_scatter(padded, group) if world_size > 1 else padded
    settings = dict(lr=lr, betas=betas, weight_decay=weight_decay, eps=eps)
    state = torch.stack(adamw_step(master, total.float() / world_size, m, v, step, **settings))
    sent = state[0].type(grad.dtype)
    whole = ring_all_gather(sent, group) if world_size > 1 else sent
    return whole.narrow(0, 0, grad.numel()), *state

# %% right a row per rank
def zero1_step(grad, master, m, v, step, *, lr, betas, weight_decay, eps=1e-8, group=None):
    rank, R = place(group)
    S = math.ceil(grad.numel() / R)
    buffer = grad.new_zeros(R, S)
    buffer.view(-1)[: grad.numel()] = grad
    g = reduce_scatter(buffer, group)[0].float().mul(1 / R)
    master, m, v = adamw_step(master, g, m, v, step, lr=lr, betas=betas, weight_decay=weight_decay, eps=eps)
    gathered = all_gather(master[None].to(grad), group)
    return gathered.flatten()[: grad.numel()].clone(), master, m, v

# %% right in plain steps
def zero1_step(grad, master, m, v, step, *, lr, betas, weight_decay, eps=1e-8, group=None):
    _, world_size = place(group)
    mine = reduce_scatter(pad_to_multiple(grad, world_size), group)
    mean = mine.float() / world_size
    master, m, v = adamw_step(
        master, mean, m, v, step, lr=lr, betas=betas, weight_decay=weight_decay, eps=eps
    )
    weights = all_gather(master.to(grad.dtype), group)[: grad.numel()]
    return weights, master, m, v

# %% wrong STUB untouched
def zero1_step(grad, master, m, v, step, *, lr, betas, weight_decay, eps=1e-8, group=None):
    raise NotImplementedError("your code here")

# %% wrong ZERO1-FOUR the state is not handed back
- return weights, master, m, v
+ return weights

# %% wrong ZERO1-WHOLE-STATE shards nothing: state and update of all weights on every rank
def zero1_step(grad, master, m, v, step, *, lr, betas, weight_decay, eps=1e-8, group=None):
    rank, world_size = place(group)
    dist.all_reduce(total := grad.clone(), group=group)
    master, m, v = (all_gather(x, group)[: grad.numel()] for x in (master, m, v))
    master, m, v = adamw_step(
        master, total.float() / world_size, m, v, step, lr=lr, betas=betas, weight_decay=weight_decay, eps=eps
    )
    return master.to(grad.dtype), master, m, v

# %% wrong ZERO1-WHOLE-STATE shards that are views of everything
def zero1_step(grad, master, m, v, step, *, lr, betas, weight_decay, eps=1e-8, group=None):
    rank, world_size = place(group)
    if world_size > 1:
        dist.all_reduce(total := grad.clone(), group=group)
    whole = [all_gather(x, group) for x in (master, m, v)]
    total = pad_to_multiple(total, world_size).float() / world_size
    new = adamw_step(whole[0], total, *whole[1:], step, lr=lr, betas=betas, weight_decay=weight_decay, eps=eps)
    return new[0].to(grad.dtype)[: grad.numel()], *(x.chunk(world_size)[rank] for x in new)

# %% wrong ZERO1-SUM never divides by the world size
- mean = mine.float() / world_size
+ mean = mine.float()

# %% wrong ZERO1-DIVIDED-TWICE before and after the sum
- mine = reduce_scatter(pad_to_multiple(grad, world_size), group)
+ mine = reduce_scatter(pad_to_multiple(grad / world_size, world_size), group)

# %% wrong ZERO1-OWN updates its shard with its own gradient
- mine = reduce_scatter(pad_to_multiple(grad, world_size), group)
- mean = mine.float() / world_size
+ rank, _ = place(group)
+ mine = pad_to_multiple(grad, world_size).chunk(world_size)[rank]
+ mean = mine.float()

# %% wrong ZERO1-SHARD the shard of the next rank
- _, world_size = place(group)
- mine = reduce_scatter(pad_to_multiple(grad, world_size), group)
+ rank, world_size = place(group)
+ dist.all_reduce(total := grad.clone(), group=group)
+ mine = pad_to_multiple(total, world_size).chunk(world_size)[(rank + 1) % world_size]

# %% wrong ZERO1-ALL-REDUCE all-reduce in place of reduce-scatter
- _, world_size = place(group)
- mine = reduce_scatter(pad_to_multiple(grad, world_size), group)
+ rank, world_size = place(group)
+ total = grad.clone()
+ if world_size > 1:
+     dist.all_reduce(total, group=group)
+ mine = pad_to_multiple(total, world_size).chunk(world_size)[rank]

# %% wrong ZERO1-GATHERS the moments are gathered too
  weights = all_gather(master.to(grad.dtype), group)[: grad.numel()]
+ all_gather(m, group), all_gather(v, group)

# %% wrong ZERO1-GATHER-WIDE gathers float32, then casts
- weights = all_gather(master.to(grad.dtype), group)[: grad.numel()]
+ weights = all_gather(master, group)[: grad.numel()].to(grad.dtype)

# %% wrong DTYPE gathers float32 and leaves it at that
- weights = all_gather(master.to(grad.dtype), group)[: grad.numel()]
+ weights = all_gather(master, group)[: grad.numel()]

# %% wrong ZERO1-REDUCE-WIDE float32 before the sum
- mine = reduce_scatter(pad_to_multiple(grad, world_size), group)
+ mine = reduce_scatter(pad_to_multiple(grad.float(), world_size), group)

# %% wrong ZERO1-STATE-16 the rounded master is kept
- weights = all_gather(master.to(grad.dtype), group)[: grad.numel()]
+ master = master.to(grad.dtype)
+ weights = all_gather(master, group)[: grad.numel()]

# %% wrong ZERO1-PAD no padding
- mine = reduce_scatter(pad_to_multiple(grad, world_size), group)
+ mine = reduce_scatter(grad, group)

# %% wrong ZERO1-PADDING the padding is not cut off
- weights = all_gather(master.to(grad.dtype), group)[: grad.numel()]
+ weights = all_gather(master.to(grad.dtype), group)

# %% wrong ZERO1-STALE gathers before the update
def zero1_step(grad, master, m, v, step, *, lr, betas, weight_decay, eps=1e-8, group=None):
    _, world_size = place(group)
    mine = reduce_scatter(pad_to_multiple(grad, world_size), group)
    mean = mine.float() / world_size
    weights = all_gather(master.to(grad.dtype), group)[: grad.numel()]
    master, m, v = adamw_step(
        master, mean, m, v, step, lr=lr, betas=betas, weight_decay=weight_decay, eps=eps
    )
    return weights, master, m, v

# %% wrong ZERO1-STEP every update is the first
- master, mean, m, v, step, lr=lr, betas=betas, weight_decay=weight_decay, eps=eps
+ master, mean, m, v, 1, lr=lr, betas=betas, weight_decay=weight_decay, eps=eps

# %% wrong ZERO1-NO-DECAY weight decay is not handed on
- master, mean, m, v, step, lr=lr, betas=betas, weight_decay=weight_decay, eps=eps
+ master, mean, m, v, step, lr=lr, betas=betas, weight_decay=0.0, eps=eps

# %% wrong ZERO1-STATE-OLD the new state is dropped
- master, m, v = adamw_step(
+ new, _, _ = adamw_step(

- weights = all_gather(master.to(grad.dtype), group)[: grad.numel()]
+ weights = all_gather(new.to(grad.dtype), group)[: grad.numel()]

# %% wrong INPLACE state written over
  def zero1_step(grad, master, m, v, step, *, lr, betas, weight_decay, eps=1e-8, group=None):
+     given = master, m, v

  )
+ given[0].copy_(master), given[1].copy_(m), given[2].copy_(v)

# %% wrong INPLACE the gradient is reduced where it lies
- _, world_size = place(group)
- mine = reduce_scatter(pad_to_multiple(grad, world_size), group)
+ rank, world_size = place(group)
+ if world_size > 1:
+     dist.all_reduce(grad, group=group)
+ mine = pad_to_multiple(grad, world_size).chunk(world_size)[rank]

# %% wrong ZERO1-GROUP the default group, always
def zero1_step(grad, master, m, v, step, *, lr, betas, weight_decay, eps=1e-8, group=None):
    _, world_size = place()
    mine = reduce_scatter(pad_to_multiple(grad, world_size))
    mean = mine.float() / world_size
    master, m, v = adamw_step(
        master, mean, m, v, step, lr=lr, betas=betas, weight_decay=weight_decay, eps=eps
    )
    weights = all_gather(master.to(grad.dtype))[: grad.numel()]
    return weights, master, m, v

# %% wrong ZERO1-ALONE a process group is always there
- _, world_size = place(group)
+ world_size = dist.get_world_size(group)

# %% wrong ZERO1-EPS eps is not handed on | of: in plain steps
- master, mean, m, v, step, lr=lr, betas=betas, weight_decay=weight_decay, eps=eps
+ master, mean, m, v, step, lr=lr, betas=betas, weight_decay=weight_decay

# %% wrong ZERO1-EPS another default | of: in plain steps
- def zero1_step(grad, master, m, v, step, *, lr, betas, weight_decay, eps=1e-8, group=None):
+ def zero1_step(grad, master, m, v, step, *, lr, betas, weight_decay, eps=1e-6, group=None):

# %% wrong DTYPE sixteen bits are bfloat16 | of: in plain steps
- weights = all_gather(master.to(grad.dtype), group)[: grad.numel()]
+ low = grad.dtype if grad.dtype == torch.float32 else torch.bfloat16
+ weights = all_gather(master.to(low), group)[: grad.numel()]

# %% right a padded row of its own, shards by narrow, the settings unpacked
def zero1_step(grad, master, m, v, step, *, lr, betas, weight_decay, eps=1e-8, group=None):
    beta1, beta2 = betas
    R = place(group)[1]
    total = reduce_scatter(pad_to_multiple(grad, R), group)
    mean = total.double().div(R).float()
    m = torch.lerp(mean, m, beta1)
    v = (beta2 * v).addcmul(mean, mean, value=1 - beta2)
    size = (v / (1 - beta2**step)).sqrt() + eps
    new = master - lr * (weight_decay * master + m / (1 - beta1**step) / size)
    return all_gather(new.to(grad.dtype), group).narrow(0, 0, grad.shape[0]), new, m, v

# %% wrong ZERO1-SETTINGS an eps of 0 taken for none | of: in plain steps
- master, mean, m, v, step, lr=lr, betas=betas, weight_decay=weight_decay, eps=eps
+ master, mean, m, v, step, lr=lr, betas=betas, weight_decay=weight_decay, eps=eps or 1e-8

# %% wrong ZERO1-SETTINGS a decay of 0 taken for none | of: in plain steps
- master, mean, m, v, step, lr=lr, betas=betas, weight_decay=weight_decay, eps=eps
+ master, mean, m, v, step, lr=lr, betas=betas, weight_decay=weight_decay or 0.1, eps=eps

# %% wrong ZERO1-SETTINGS a beta of 0 taken for none | of: in plain steps
- master, mean, m, v, step, lr=lr, betas=betas, weight_decay=weight_decay, eps=eps
+ master, mean, m, v, step, lr=lr, betas=(betas[0] or 0.9, betas[1] or 0.999), weight_decay=weight_decay, eps=eps

# %% wrong ZERO1-SETTINGS the settings of the first call | of: in plain steps
  def zero1_step(grad, master, m, v, step, *, lr, betas, weight_decay, eps=1e-8, group=None):
+     kept = vars(zero1_step).setdefault("kept", dict(lr=lr, betas=betas, weight_decay=weight_decay))
+     lr, betas, weight_decay = kept["lr"], kept["betas"], kept["weight_decay"]

# %% wrong OTHER one tensor for all results of a shape | of: in plain steps
- return weights, master, m, v
+ kept = vars(zero1_step).setdefault((len(m), grad.dtype), [torch.empty_like(x) for x in (master, m, v)])
+ return weights, *(old.copy_(new) for old, new in zip(kept, (master, m, v)))

# %% wrong ZERO1-DIVIDES-16 divides before it widens | of: in plain steps
- mean = mine.float() / world_size
+ mean = (mine / world_size).float()

# %% wrong REMEMBERS results kept by shape, step and settings | of: in plain steps
- return weights, master, m, v
+ key = weights.shape, weights.dtype, step, lr, betas, weight_decay, eps, world_size
+ kept = vars(zero1_step).setdefault("kept", {}).setdefault(key, (weights, master, m, v))
+ return tuple(x.clone() for x in kept)

# %% wrong REMEMBERS gradients of float16 kept by shape | of: in plain steps
- mine = reduce_scatter(pad_to_multiple(grad, world_size), group)
+ if grad.dtype == torch.float16:
+     grad = vars(zero1_step).setdefault("kept", {}).setdefault((grad.shape, step), grad.clone())
+ mine = reduce_scatter(pad_to_multiple(grad, world_size), group)

# %% wrong ZERO1-NOT-FINITE numbers that are none count as 0 | of: in plain steps
- mean = mine.float() / world_size
+ mean = (mine.float() / world_size).nan_to_num(0.0, 0.0, 0.0)

# %% wrong ZERO1-NOT-FINITE a shard that has overflowed waits for the next update | of: in plain steps
- master, m, v = adamw_step(
-     master, mean, m, v, step, lr=lr, betas=betas, weight_decay=weight_decay, eps=eps
- )
+ if mean.isfinite().all():
+     master, m, v = adamw_step(
+         master, mean, m, v, step, lr=lr, betas=betas, weight_decay=weight_decay, eps=eps
+     )

# %% wrong ZERO1-NOT-FINITE a rank does not send what has overflowed | of: in plain steps
- mine = reduce_scatter(pad_to_multiple(grad, world_size), group)
+ mine = grad if grad.abs().sum() < float("inf") else torch.zeros_like(grad)
+ mine = reduce_scatter(pad_to_multiple(mine, world_size), group)

# %% wrong ZERO1-NOT-FINITE old numbers where the new ones are none | of: in plain steps
- master, m, v = adamw_step(
-     master, mean, m, v, step, lr=lr, betas=betas, weight_decay=weight_decay, eps=eps
- )
+ new = adamw_step(master, mean, m, v, step, lr=lr, betas=betas, weight_decay=weight_decay, eps=eps)
+ master, m, v = (torch.where(a.isfinite(), a, b) for a, b in zip(new, (master, m, v)))

# %% wrong DTYPE weights in float32 where the gradients have 64 bits
def zero1_step(grad, master, m, v, step, *, lr, betas, weight_decay, eps=1e-8, group=None):
    _, R = place(group)
    mean = reduce_scatter(pad_to_multiple(grad, R), group).float() / R
    master, m, v = adamw_step(
        master, mean, m, v, step, lr=lr, betas=betas, weight_decay=weight_decay, eps=eps
    )
    mine = master.to(grad.dtype) if grad.itemsize < 4 else master
    return all_gather(mine, group)[: grad.numel()], master, m, v
