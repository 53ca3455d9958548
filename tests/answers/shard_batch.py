# Answers to the exercise shard-batch. `# %% wrong CODE name` must be refused with exactly that code,
# `# %% right name` must pass. Each cell is a whole answer under the lesson's imports.

# %% right reshaped
def rows_of_rank(starts, *, rank, world_size):
    if rank not in range(world_size):
        raise ValueError(f"no rank {rank} of {world_size}")
    return starts.reshape(world_size, -1)[rank]

# %% right NumPy splits
def rows_of_rank(starts, *, rank, world_size):
    if rank < 0 or rank >= world_size:
        raise ValueError("rank out of range")
    return np.split(starts, world_size)[rank]

# %% right a mask
def rows_of_rank(starts, *, rank, world_size):
    if not 0 <= rank < world_size or len(starts) % world_size:
        raise ValueError(f"rank {rank}, {len(starts)} starts, {world_size} ranks")
    share = len(starts) // world_size
    return starts[np.arange(len(starts)) // share == rank]

# %% wrong STUB untouched
def rows_of_rank(starts, *, rank, world_size):
    raise NotImplementedError("your code here")

# %% wrong NONE no return
def rows_of_rank(starts, *, rank, world_size):
    starts.reshape(world_size, -1)[rank]

# %% wrong TYPE a list
def rows_of_rank(starts, *, rank, world_size):
    share = len(starts) // world_size
    return [starts[i] for i in range(rank * share, (rank + 1) * share)]

# %% wrong SHAPE two dimensions
def rows_of_rank(starts, *, rank, world_size):
    return starts.reshape(world_size, -1)[rank : rank + 1]

# %% wrong DTYPE floats
def rows_of_rank(starts, *, rank, world_size):
    share = len(starts) // world_size
    out = np.empty(share)
    out[:] = starts[rank * share : (rank + 1) * share]
    return out

# %% wrong SHAPE every rank has everything
def rows_of_rank(starts, *, rank, world_size):
    return starts

# %% wrong RANK-SAME the first part for everyone
def rows_of_rank(starts, *, rank, world_size):
    return starts[: len(starts) // world_size]

# %% wrong RANK-STRIDED dealt like cards
def rows_of_rank(starts, *, rank, world_size):
    return starts[rank::world_size]

# %% wrong RANK-REVERSED from the end
def rows_of_rank(starts, *, rank, world_size):
    return starts.reshape(world_size, -1)[-1 - rank]

# %% wrong RANK-FROM-ONE ranks counted from 1
def rows_of_rank(starts, *, rank, world_size):
    share = len(starts) // world_size
    return starts[(rank - 1) * share : rank * share]

# %% wrong RANK-OVERLAP begins at the rank
def rows_of_rank(starts, *, rank, world_size):
    return starts[rank : rank + len(starts) // world_size]

# %% wrong SHAPE blocks of world_size
def rows_of_rank(starts, *, rank, world_size):
    return starts[rank * world_size : (rank + 1) * world_size]

# %% wrong RANK-LOST a random part
def rows_of_rank(starts, *, rank, world_size):
    share = len(starts) // world_size
    return np.random.default_rng(rank).choice(starts, share, replace=False)

# %% wrong RANK-ORDER each part sorted
def rows_of_rank(starts, *, rank, world_size):
    share = len(starts) // world_size
    return np.sort(starts[rank * share : (rank + 1) * share])

# %% wrong RANK-UNEVEN rounds down
def rows_of_rank(starts, *, rank, world_size):
    share = len(starts) // world_size
    return starts[rank * share : (rank + 1) * share]

# %% wrong RANK-UNEVEN the first ranks take the rest
def rows_of_rank(starts, *, rank, world_size):
    return np.array_split(starts, world_size)[rank]

# %% wrong RANK-UNEVEN-ERROR an assertion
def rows_of_rank(starts, *, rank, world_size):
    assert len(starts) % world_size == 0
    return starts.reshape(world_size, -1)[rank]

# %% wrong RANK-NOBODY a slice beyond the end is empty
def rows_of_rank(starts, *, rank, world_size):
    if len(starts) % world_size:
        raise ValueError("uneven")
    share = len(starts) // world_size
    return starts[rank * share : (rank + 1) * share]

# %% wrong RANK-NOBODY rank -1 is the last
def rows_of_rank(starts, *, rank, world_size):
    if rank >= world_size:
        raise ValueError("rank out of range")
    return np.split(starts, world_size)[rank]

# %% wrong RANK-NOBODY-ERROR an index error
def rows_of_rank(starts, *, rank, world_size):
    return np.split(starts, world_size)[rank]

# %% wrong RANK-NOBODY a world of one asks nothing
def rows_of_rank(starts, *, rank, world_size):
    if world_size == 1:
        return starts
    if rank not in range(world_size):
        raise ValueError(f"no rank {rank} of {world_size}")
    if len(starts) % world_size:
        raise ValueError("uneven")
    return starts.reshape(world_size, -1)[rank]

# %% wrong RANK-NOBODY a world of none is a world of one
def rows_of_rank(starts, *, rank, world_size):
    if world_size <= 1:
        if rank != 0:
            raise ValueError(f"no rank {rank}")
        return starts
    if rank not in range(world_size) or len(starts) % world_size:
        raise ValueError(f"rank {rank} of {world_size}, {len(starts)} starts")
    return np.split(starts, world_size)[rank]

# %% wrong RANK-NOBODY the rank is compared with its remainder
def rows_of_rank(starts, *, rank, world_size):
    if not world_size or rank % world_size != rank or len(starts) % world_size:
        raise ValueError(f"rank {rank} of {world_size}, {len(starts)} starts")
    share = len(starts) // world_size
    return starts[rank * share : (rank + 1) * share]

# %% wrong RANK-NOBODY 0 ranks taken for none given
def rows_of_rank(starts, *, rank, world_size):
    world_size = world_size or 1
    if not 0 <= rank < world_size or len(starts) % world_size:
        raise ValueError(f"rank {rank} of {world_size}, {len(starts)} starts")
    return np.split(starts, world_size)[rank]

# %% wrong RANK-UNEVEN fewer windows than ranks
def rows_of_rank(starts, *, rank, world_size):
    if not 0 <= rank < world_size or len(starts) > world_size and len(starts) % world_size:
        raise ValueError(f"rank {rank} of {world_size}, {len(starts)} starts")
    share = len(starts) // world_size
    return starts[rank * share : (rank + 1) * share]

# %% wrong RANK-UNEVEN asks about odd numbers
def rows_of_rank(starts, *, rank, world_size):
    if not 0 <= rank < world_size or len(starts) % 2 > world_size % 2:
        raise ValueError(f"rank {rank} of {world_size}, {len(starts)} starts")
    share = len(starts) // world_size
    return starts[rank * share : (rank + 1) * share]

# %% wrong DTYPE always int64
def rows_of_rank(starts, *, rank, world_size):
    if not 0 <= rank < world_size or len(starts) % world_size:
        raise ValueError(f"rank {rank} of {world_size}, {len(starts)} starts")
    share = len(starts) // world_size
    return np.array(starts.tolist()[rank * share : (rank + 1) * share])

# %% wrong RANK-NUMBERS through float64
def rows_of_rank(starts, *, rank, world_size):
    if not 0 <= rank < world_size or len(starts) % world_size:
        raise ValueError(f"rank {rank} of {world_size}, {len(starts)} starts")
    out = np.zeros(len(starts) // world_size)
    out[:] = starts[rank * len(out) : (rank + 1) * len(out)]
    return out.astype(starts.dtype)

# %% wrong SHAPE picks its starts by their values
def rows_of_rank(starts, *, rank, world_size):
    if not 0 <= rank < world_size or len(starts) % world_size:
        raise ValueError(f"rank {rank} of {world_size}, {len(starts)} starts")
    share = len(starts) // world_size
    return starts[np.isin(starts, starts[rank * share : (rank + 1) * share])]

# %% wrong RANK-SIZES blocks of two at least
def rows_of_rank(starts, *, rank, world_size):
    if not 0 <= rank < world_size or len(starts) % world_size:
        raise ValueError(f"rank {rank} of {world_size}, {len(starts)} starts")
    share = len(starts) // world_size
    first = rank * max(share, 2)
    return starts[first % len(starts) :][:share]

# %% right asks about the windows first, and copies
def rows_of_rank(starts, *, rank, world_size):
    share, rest = divmod(starts.size, max(world_size, 1))
    if rest != 0 or rank >= world_size or rank < 0:
        raise ValueError("no such share")
    return np.take(starts, range(rank * share, rank * share + share))

# %% wrong RANK-NOBODY-ERROR divides before it looks at the rank
- share, rest = divmod(starts.size, max(world_size, 1))
+ share, rest = divmod(starts.size, world_size)

# %% wrong RANK-NONE refuses an empty batch
- if rest != 0 or rank >= world_size or rank < 0:
+ if rest != 0 or rank >= world_size or rank < 0 or not share:

# %% wrong TYPE a row of no numbers is a list
- return np.take(starts, range(rank * share, rank * share + share))
+ return np.take(starts, range(rank * share, rank * share + share)) if share else []

# %% wrong RANK-NOBODY an empty batch is returned before the rank is looked at
def rows_of_rank(starts, *, rank, world_size):
    if len(starts) == 0:
        return starts
    if not 0 <= rank < world_size or len(starts) % world_size:
        raise ValueError(f"rank {rank} of {world_size}, {len(starts)} starts")
    return np.split(starts, world_size)[rank]

# %% wrong DTYPE an array of the numbers, of which there may be none
def rows_of_rank(starts, *, rank, world_size):
    if not 0 <= rank < world_size or len(starts) % world_size:
        raise ValueError(f"rank {rank} of {world_size}, {len(starts)} starts")
    share = len(starts) // world_size
    return np.array([starts[rank * share + i] for i in range(share)])

# %% wrong DTYPE no starts are int64 whatever they were
def rows_of_rank(starts, *, rank, world_size):
    if not 0 <= rank < world_size or len(starts) % world_size:
        raise ValueError(f"rank {rank} of {world_size}, {len(starts)} starts")
    return np.split(starts, world_size)[rank] if len(starts) else np.arange(0)

# %% wrong DTYPE small numbers become wider
def rows_of_rank(starts, *, rank, world_size):
    if not 0 <= rank < world_size or len(starts) % world_size:
        raise ValueError(f"rank {rank} of {world_size}, {len(starts)} starts")
    return np.split(starts, world_size)[rank].astype(np.promote_types(starts.dtype, np.uint16))

# %% wrong REMEMBERS parts kept by how many starts there are
PARTS = {}

def rows_of_rank(starts, *, rank, world_size):
    if not 0 <= rank < world_size or len(starts) % world_size:
        raise ValueError(f"rank {rank} of {world_size}, {len(starts)} starts")
    key = len(starts), starts.dtype, rank, world_size
    return PARTS.setdefault(key, np.split(starts, world_size)[rank].copy()).copy()

# %% wrong REMEMBERS parts of int32 kept by the length of a part
PARTS = {}

def rows_of_rank(starts, *, rank, world_size):
    if not 0 <= rank < world_size or len(starts) % world_size:
        raise ValueError(f"rank {rank} of {world_size}, {len(starts)} starts")
    part = np.split(starts, world_size)[rank]
    if starts.dtype == np.int32:
        part = PARTS.setdefault((len(part), rank), part.copy()).copy()
    return part

# %% wrong RESULT-CHANGES two arrays in turn for the parts of a rank
PARTS = {}

def rows_of_rank(starts, *, rank, world_size):
    if not 0 <= rank < world_size or len(starts) % world_size:
        raise ValueError(f"rank {rank}, {len(starts)} starts, {world_size} ranks")
    part = starts[rank * len(starts) // world_size :][: len(starts) // world_size]
    kept = PARTS.setdefault((starts.dtype, len(part), rank, world_size), [])
    kept.append(kept.pop(0) if len(kept) == 2 else part.copy())
    kept[-1][:] = part
    return kept[-1]

# %% wrong RESULT-CHANGES one array for the parts of a rank
ROWS = {}

def rows_of_rank(starts, *, rank, world_size):
    if not 0 <= rank < world_size or len(starts) % world_size:
        raise ValueError(f"rank {rank}, {len(starts)} starts, {world_size} ranks")
    part = starts.reshape(world_size, -1)[rank]
    row = ROWS.setdefault((starts.dtype.str, part.size, rank, world_size), part.copy())
    np.copyto(row, part)
    return row

# %% wrong SHAPE shares in floating point
def rows_of_rank(starts, *, rank, world_size):
    if not 0 <= rank < world_size:
        raise ValueError(f"no rank {rank} of {world_size}")
    if len(starts) % world_size:
        raise ValueError(f"{len(starts)} starts for {world_size} ranks")
    first, last = (int(r / world_size * len(starts)) for r in (rank, rank + 1))
    return starts[first:last]

# %% wrong RANK-SIZES the first place in floating point
def rows_of_rank(starts, *, rank, world_size):
    if not 0 <= rank < world_size:
        raise ValueError(f"no rank {rank} of {world_size}")
    if len(starts) % world_size:
        raise ValueError(f"{len(starts)} starts for {world_size} ranks")
    first = int(rank / world_size * len(starts))
    return starts[first : first + len(starts) // world_size]
