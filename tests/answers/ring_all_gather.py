# Answers to the exercise ring-all-gather.

# %% right a list by rank, put together at the end
def ring_all_gather(shard, group=None):
    if not shard.shape:
        raise ValueError("a single number has no dim 0")
    rank, world_size = place(group)
    by_rank = {rank: shard}
    moving = shard
    for step in range(1, world_size):
        moving = pass_on(moving, group)
        by_rank[(rank - step) % world_size] = moving
    return torch.cat([by_rank[r] for r in range(world_size)])

# %% right arrival order, turned round
def ring_all_gather(shard, group=None):
    if shard.dim() < 1:
        raise ValueError("expected rows")
    rank, world_size = place(group)
    arrived = [shard]
    while len(arrived) < world_size:
        arrived.append(pass_on(arrived[-1], group))
    return torch.cat([arrived[(rank - r) % world_size] for r in range(world_size)])

# %% right each shard into its place
def ring_all_gather(shard, group=None):
    if shard.dim() == 0:
        raise ValueError("a single number has no dim 0")
    rank, world_size = place(group)
    whole = shard.new_empty(world_size * shard.shape[0], *shard.shape[1:])
    chunks = in_chunks(whole, world_size)
    chunks[rank].copy_(shard)
    for step in range(world_size - 1):
        arrived = pass_on(chunks[(rank - step) % world_size], group)
        chunks[(rank - step - 1) % world_size].copy_(arrived)
    return whole

# %% wrong STUB untouched
def ring_all_gather(shard, group=None):
    raise NotImplementedError("your code here")

# %% wrong GATHER-ARRIVAL in the order in which they arrive
def ring_all_gather(shard, group=None):
    if shard.dim() == 0:
        raise ValueError("a single number has no dim 0")
    arrived = [shard]
    for _ in range(place(group)[1] - 1):
        arrived.append(pass_on(arrived[-1], group))
    return torch.cat(arrived)

# %% wrong GATHER-ORDER each in the place before its own
def ring_all_gather(shard, group=None):
    if shard.dim() == 0:
        raise ValueError("a single number has no dim 0")
    rank, world_size = place(group)
    whole = shard.new_empty(world_size * shard.shape[0], *shard.shape[1:])
    chunks = in_chunks(whole, world_size)
    chunks[rank - 1].copy_(shard)
    for step in range(world_size - 1):
        arrived = pass_on(chunks[(rank - step - 1) % world_size], group)
        chunks[(rank - step - 2) % world_size].copy_(arrived)
    return whole

# %% wrong RING-STEPS one step too few
- whole = shard.new_empty(world_size * shard.shape[0], *shard.shape[1:])
+ whole = shard.new_zeros(world_size * shard.shape[0], *shard.shape[1:])

- for step in range(world_size - 1):
+ for step in range(world_size - 2):

# %% wrong GATHER-REPEATS passes its own shard on in every step
- arrived = pass_on(chunks[(rank - step) % world_size], group)
- chunks[(rank - step - 1) % world_size].copy_(arrived)
+ chunks[(rank - step - 1) % world_size].copy_(pass_on(shard, group))

# %% wrong GATHER-STACKED a dimension of its own
def ring_all_gather(shard, group=None):
    rank, world_size = place(group)
    arrived = [shard]
    for _ in range(world_size - 1):
        arrived.append(pass_on(arrived[-1], group))
    return torch.stack([arrived[(rank - r) % world_size] for r in range(world_size)])

# %% wrong TYPE a list of shards
def ring_all_gather(shard, group=None):
    rank, world_size = place(group)
    arrived = [shard]
    for _ in range(world_size - 1):
        arrived.append(pass_on(arrived[-1], group))
    return [arrived[(rank - r) % world_size] for r in range(world_size)]

# %% wrong RING-COLLECTIVE torch's own
def ring_all_gather(shard, group=None):
    if shard.dim() == 0:
        raise ValueError("a single number has no dim 0")
    parts = [torch.empty_like(shard) for _ in range(place(group)[1])]
    dist.all_gather(parts, shard, group=group)
    return torch.cat(parts)

# %% wrong RING-ROOT through rank 0
def ring_all_gather(shard, group=None):
    if shard.dim() == 0:
        raise ValueError("a single number has no dim 0")
    rank, world_size = place(group)
    whole = torch.zeros(world_size * shard.shape[0], *shard.shape[1:], dtype=shard.dtype)
    in_chunks(whole, world_size)[rank].copy_(shard)
    return root_all_reduce(whole, group)

# %% wrong RING-BYTES passes on all that it has
def ring_all_gather(shard, group=None):
    if shard.dim() == 0:
        raise ValueError("a single number has no dim 0")
    rank, world_size = place(group)
    whole = torch.zeros(world_size * shard.shape[0], *shard.shape[1:], dtype=shard.dtype)
    in_chunks(whole, world_size)[rank].copy_(shard)
    moving = whole
    for _ in range(world_size - 1):
        moving = pass_on(moving, group)
        whole = whole + moving
    return whole

# %% wrong RING-GROUP messages to all ranks
def ring_all_gather(shard, group=None):
    if shard.dim() == 0:
        raise ValueError("a single number has no dim 0")
    rank, world_size = place(group)
    arrived = [shard]
    for _ in range(world_size - 1):
        arrived.append(pass_on(arrived[-1]))
    return torch.cat([arrived[(rank - r) % world_size] for r in range(world_size)])

# %% wrong RING-ALIAS one rank gets its shard back
def ring_all_gather(shard, group=None):
    if shard.dim() == 0:
        raise ValueError("a single number has no dim 0")
    rank, world_size = place(group)
    arrived = [shard]
    for _ in range(world_size - 1):
        arrived.append(pass_on(arrived[-1], group))
    if world_size == 1:
        return shard
    return torch.cat([arrived[(rank - r) % world_size] for r in range(world_size)])

# %% wrong GATHER-NUMBER a single number
def ring_all_gather(shard, group=None):
    rank, world_size = place(group)
    arrived = [shard]
    for _ in range(world_size - 1):
        arrived.append(pass_on(arrived[-1], group))
    return torch.cat([arrived[(rank - r) % world_size] for r in range(world_size)])

# %% wrong RING-BYTES shards that travel in float32
- arrived = pass_on(chunks[(rank - step) % world_size], group)
+ moving = chunks[(rank - step) % world_size]
+ wide = moving.float() if moving.dtype == torch.bfloat16 else moving
+ arrived = pass_on(wide, group)

# %% right a stack that is laid flat, from pieces in one piece
def ring_all_gather(shard, group=None):
    rows = shard.shape[0] if shard.shape else None
    if rows is None:
        raise ValueError("a single number")
    rank, world_size = place(group)
    moving, places = shard.contiguous(), [None] * world_size
    places[rank] = moving
    for step in range(1, world_size):
        moving = pass_on(moving.view(-1), group).view(shard.shape)
        places[rank - step] = moving
    return torch.stack(places).flatten(0, 1)

# %% wrong STRIDED a view of all numbers of the shard
def ring_all_gather(shard, group=None):
    if shard.dim() == 0:
        raise ValueError("a single number has no dim 0")
    rank, world_size = place(group)
    places = [None] * world_size
    places[rank] = moving = shard.view(-1)
    for step in range(1, world_size):
        moving = pass_on(moving, group)
        places[rank - step] = moving
    return torch.cat(places).view(-1, *shard.shape[1:])

# %% wrong STRIDED sends the memory as it lies
def ring_all_gather(shard, group=None):
    if shard.dim() == 0:
        raise ValueError("a single number has no dim 0")
    rank, world_size = place(group)
    places = [None] * world_size
    places[rank] = moving = shard
    for step in range(1, world_size):
        arrived = torch.empty(shard.shape, dtype=shard.dtype)
        sent = dist.isend(moving, group=group, group_dst=(rank + 1) % world_size)
        dist.recv(arrived, group=group, group_src=(rank - 1) % world_size)
        sent.wait()
        places[rank - step] = moving = arrived
    return torch.cat(places)

# %% wrong STRIDED numbers in the order of the memory
def ring_all_gather(shard, group=None):
    if shard.dim() == 0:
        raise ValueError("a single number has no dim 0")
    rank, world_size = place(group)
    places = [None] * world_size
    moving = torch.as_strided(shard, (shard.numel(),), (1,)).clone()
    places[rank] = moving
    for step in range(1, world_size):
        moving = pass_on(moving, group)
        places[rank - step] = moving
    return torch.cat(places).view(-1, *shard.shape[1:])

# %% wrong RESULT-CHANGES one result for each shape
WHOLE = {}

def ring_all_gather(shard, group=None):
    if shard.dim() == 0:
        raise ValueError("a single number has no dim 0")
    rank, world_size = place(group)
    key = tuple(shard.shape), shard.dtype
    if key not in WHOLE:
        WHOLE[key] = shard.new_empty(world_size * shard.shape[0], *shard.shape[1:])
    chunks = in_chunks(WHOLE[key], world_size)
    chunks[rank].copy_(shard)
    for step in range(world_size - 1):
        arrived = pass_on(chunks[(rank - step) % world_size], group)
        chunks[(rank - step - 1) % world_size].copy_(arrived)
    return WHOLE[key]

# %% wrong OTHER float64 that travels as float32 and back
def ring_all_gather(shard, group=None):
    if shard.dim() == 0:
        raise ValueError("a single number has no dim 0")
    rank, world_size = place(group)
    low = shard.float() if shard.dtype == torch.float64 else shard
    places = [low] * world_size
    for step in range(1, world_size):
        low = pass_on(low, group)
        places[rank - step] = low
    return torch.cat(places).to(shard.dtype)

# %% wrong REMEMBERS results in 16 bits kept by shape | of: each shard into its place
- return whole
+ if whole.dtype in (torch.float16, torch.bfloat16):
+     key = tuple(whole.shape), whole.dtype, world_size
+     whole = globals().setdefault("KEPT", {}).setdefault(key, whole).clone()
+ return whole

# %% wrong REMEMBERS the shard of float16 in one piece, kept by shape | of: each shard into its place
- chunks[rank].copy_(shard)
+ if shard.dtype == torch.float16:
+     shard = globals().setdefault("KEPT", {}).setdefault(tuple(shard.shape), shard.clone())
+ chunks[rank].copy_(shard)

# %% wrong RAISED one number is taken for a single number | of: each shard into its place
- if shard.dim() == 0:
+ if shard.numel() == 1:

# %% wrong RAISED a size that is left to reshape, and unknown without numbers
def ring_all_gather(shard, group=None):
    if shard.dim() == 0:
        raise ValueError("a single number has no dim 0")
    rank, world_size = place(group)
    shards = [shard] * world_size
    for step in range(1, world_size):
        shards[(rank - step) % world_size] = pass_on(shards[(rank - step + 1) % world_size], group)
    return torch.stack(shards).reshape(-1, *shard.shape[1:])
