# Answers to the exercise get-batch. `# %% wrong CODE name` must be refused with exactly that code,
# `# %% right name` must pass. Each cell is a whole answer under the lesson's imports.

# %% right index arithmetic
def get_batch(tokens, starts, seq_len):
    rows = tokens[starts[:, None] + np.arange(seq_len + 1)].astype(np.int64)
    return torch.from_numpy(rows[:, :-1].copy()), torch.from_numpy(rows[:, 1:].copy())

# %% right a loop over the rows
def get_batch(tokens, starts, seq_len):
    rows = np.stack([tokens[s : s + seq_len + 1] for s in starts.tolist()])
    batch = torch.tensor(rows.astype(np.int64))
    return batch[:, :-1].clone(), batch[:, 1:].clone()

# %% right torch gathers
def get_batch(tokens, starts, seq_len):
    row = torch.from_numpy(tokens.view(np.int16))
    batch = row.unfold(0, seq_len + 1, 1)[torch.from_numpy(starts)].long() & 0xFFFF
    return batch[:, :seq_len].clone(), batch[:, 1:].clone()

# %% wrong BATCH-WHOLE-ROW the row cast before it is cut
- row = torch.from_numpy(tokens.view(np.int16))
+ row = torch.from_numpy(tokens.astype(np.int32))

# %% wrong BATCH-WHOLE-ROW a tensor of all tokens
- row = torch.from_numpy(tokens.view(np.int16))
+ row = torch.from_numpy(tokens.view(np.int16)).long()

# %% right two gathers
def get_batch(tokens, starts, seq_len):
    at = np.add.outer(starts, np.arange(seq_len))
    return torch.from_numpy(tokens[at].astype("int64")), torch.from_numpy(tokens[at + 1].astype("int64"))

# %% wrong STUB untouched
def get_batch(tokens, starts, seq_len):
    raise NotImplementedError("your code here")

# %% wrong NONE no return
def get_batch(tokens, starts, seq_len):
    rows = sliding_window_view(tokens, seq_len + 1)[starts].astype(np.int64)
    idx, targets = torch.from_numpy(rows[:, :-1]), torch.from_numpy(rows[:, 1:])

# %% wrong BATCH-PAIR one tensor
def get_batch(tokens, starts, seq_len):
    return torch.from_numpy(sliding_window_view(tokens, seq_len + 1)[starts].astype(np.int64))

# %% wrong TYPE arrays
def get_batch(tokens, starts, seq_len):
    rows = sliding_window_view(tokens, seq_len + 1)[starts].astype(np.int64)
    return rows[:, :-1], rows[:, 1:]

# %% wrong DTYPE uint16
def get_batch(tokens, starts, seq_len):
    rows = sliding_window_view(tokens, seq_len + 1)[starts]
    return torch.from_numpy(rows[:, :-1].copy()), torch.from_numpy(rows[:, 1:].copy())

# %% wrong DTYPE int32
def get_batch(tokens, starts, seq_len):
    rows = torch.from_numpy(sliding_window_view(tokens, seq_len + 1)[starts].astype(np.int32))
    return rows[:, :-1], rows[:, 1:]

# %% wrong BATCH-WHOLE-WINDOW not cut
def get_batch(tokens, starts, seq_len):
    rows = torch.from_numpy(sliding_window_view(tokens, seq_len + 1)[starts].astype(np.int64))
    return rows, rows[:, 1:]

# %% wrong BATCH-NO-EXTRA windows of T tokens
def get_batch(tokens, starts, seq_len):
    rows = torch.from_numpy(sliding_window_view(tokens, seq_len)[starts].astype(np.int64))
    return rows[:, :-1], rows[:, 1:]

# %% wrong BATCH-TRANSPOSED a window in each column
def get_batch(tokens, starts, seq_len):
    rows = torch.from_numpy(tokens[starts + np.arange(seq_len + 1)[:, None]].astype(np.int64))
    return rows[:-1], rows[1:]

# %% wrong BATCH-LATE begins at start + 1
def get_batch(tokens, starts, seq_len):
    rows = tokens[np.minimum(starts[:, None] + 1 + np.arange(seq_len + 1), len(tokens) - 1)]
    rows = torch.from_numpy(rows.astype(np.int64))
    return rows[:, :-1], rows[:, 1:]

# %% wrong BATCH-IN-ORDER blocks in order
def get_batch(tokens, starts, seq_len):
    B = len(starts)
    idx = tokens[: B * seq_len].reshape(B, seq_len).astype(np.int64)
    targets = tokens[1 : B * seq_len + 1].reshape(B, seq_len).astype(np.int64)
    return torch.from_numpy(idx), torch.from_numpy(targets)

# %% wrong BATCH-SORTED sorted for the disk
def get_batch(tokens, starts, seq_len):
    rows = torch.from_numpy(sliding_window_view(tokens, seq_len + 1)[np.sort(starts)].astype(np.int64))
    return rows[:, :-1], rows[:, 1:]

# %% wrong SHAPE each start once
def get_batch(tokens, starts, seq_len):
    rows = sliding_window_view(tokens, seq_len + 1)[np.unique(starts)].astype(np.int64)
    return torch.from_numpy(rows[:, :-1]), torch.from_numpy(rows[:, 1:])

# %% wrong BATCH-SAME-ROW the first start for all
def get_batch(tokens, starts, seq_len):
    row = torch.from_numpy(tokens[starts[0] : starts[0] + seq_len + 1].astype(np.int64))
    rows = row.repeat(len(starts), 1)
    return rows[:, :-1], rows[:, 1:]

# %% wrong BATCH-NO-SHIFT targets are the inputs
def get_batch(tokens, starts, seq_len):
    rows = torch.from_numpy(sliding_window_view(tokens, seq_len + 1)[starts].astype(np.int64))
    return rows[:, :-1], rows[:, :-1]

# %% wrong BATCH-SHIFT-BACK one earlier
def get_batch(tokens, starts, seq_len):
    at = starts[:, None] + np.arange(seq_len)
    return torch.from_numpy(tokens[at].astype(np.int64)), torch.from_numpy(tokens[at - 1].astype(np.int64))

# %% wrong BATCH-SHIFT-TWO shifted twice
def get_batch(tokens, starts, seq_len):
    at = starts[:, None] + np.arange(seq_len + 1)
    later = tokens[np.minimum(at + 1, len(tokens) - 1)]
    return torch.from_numpy(tokens[at][:, :-1].astype(np.int64)), torch.from_numpy(later[:, 1:].astype(np.int64))

# %% wrong BATCH-ROLLED roll brings the first token back
def get_batch(tokens, starts, seq_len):
    idx = torch.from_numpy(tokens[starts[:, None] + np.arange(seq_len)].astype(np.int64))
    return idx, idx.roll(-1, dims=1)

# %% wrong BATCH-PADDED a zero at the end
def get_batch(tokens, starts, seq_len):
    idx = torch.from_numpy(tokens[starts[:, None] + np.arange(seq_len)].astype(np.int64))
    targets = torch.zeros_like(idx)
    targets[:, :-1] = idx[:, 1:]
    return idx, targets

# %% wrong BATCH-INT16 read with a sign
def get_batch(tokens, starts, seq_len):
    rows = sliding_window_view(tokens.view(np.int16), seq_len + 1)[starts].astype(np.int64)
    return torch.from_numpy(rows[:, :-1]), torch.from_numpy(rows[:, 1:])

# %% wrong BATCH-LAST-WINDOW one window fewer
def get_batch(tokens, starts, seq_len):
    rows = torch.from_numpy(sliding_window_view(tokens[:-1], seq_len + 1)[starts].astype(np.int64))
    return rows[:, :-1], rows[:, 1:]

# %% wrong BATCH-LAST-WINDOW the last start is moved
def get_batch(tokens, starts, seq_len):
    starts = np.clip(starts, 0, len(tokens) - seq_len - 2)
    rows = torch.from_numpy(sliding_window_view(tokens, seq_len + 1)[starts].astype(np.int64))
    return rows[:, :-1], rows[:, 1:]

# %% wrong INPLACE sorts the starts of the caller
def get_batch(tokens, starts, seq_len):
    starts.sort()
    rows = torch.from_numpy(sliding_window_view(tokens, seq_len + 1)[starts].astype(np.int64))
    return rows[:, :-1], rows[:, 1:]

# %% wrong RAISED ragged rows
def get_batch(tokens, starts, seq_len):
    rows = np.stack([tokens[s : s + seq_len + s % 2] for s in starts.tolist()])
    rows = torch.from_numpy(rows.astype(np.int64))
    return rows[:, :-1], rows[:, 1:]

# %% wrong BATCH-SHARED two slices of one tensor
def get_batch(tokens, starts, seq_len):
    rows = tokens[starts[:, None] + np.arange(seq_len + 1)].astype(np.int64)
    rows = torch.from_numpy(rows)
    return rows[:, :-1], rows[:, 1:]

# %% wrong BATCH-FAR places in 16 bits
def get_batch(tokens, starts, seq_len):
    at = starts.astype(np.uint16)[:, None] + np.arange(seq_len + 1, dtype=np.uint16)
    rows = tokens[at].astype(np.int64)
    return torch.from_numpy(rows[:, :-1].copy()), torch.from_numpy(rows[:, 1:].copy())

# %% right two halves of one stack
def get_batch(tokens, starts, seq_len):
    at = torch.as_tensor(starts)[:, None] + torch.arange(seq_len)
    row = torch.from_numpy(tokens)
    return tuple(torch.stack((row[at], row[at + 1])).long().unbind())

# %% right in a list of lists, with one column after the other
def get_batch(tokens, starts, seq_len):
    place, columns = starts.copy(), []
    for _ in range(seq_len + 1):
        columns.append(np.take(tokens, place).tolist())
        place += 1
    return torch.tensor(columns[:-1]).T.contiguous(), torch.tensor(columns[1:]).T

# %% wrong BATCH-SHARED contiguous, which does not copy a single row
def get_batch(tokens, starts, seq_len):
    rows = torch.from_numpy(tokens[starts[:, None] + np.arange(seq_len + 1)].astype(np.int64))
    return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()

# %% wrong BATCH-SHARED one window is cut without a copy
def get_batch(tokens, starts, seq_len):
    if len(starts) == 1:
        row = torch.from_numpy(tokens[starts[0] : starts[0] + seq_len + 1].astype(np.int64))
        return row[None, :-1], row[None, 1:]
    rows = tokens[starts[:, None] + np.arange(seq_len + 1)].astype(np.int64)
    return torch.from_numpy(rows[:, :-1].copy()), torch.from_numpy(rows[:, 1:].copy())

# %% wrong RESULT-CHANGES two buffers for all calls
BUFFERS = {}

def get_batch(tokens, starts, seq_len):
    shape = (len(starts), seq_len)
    if shape not in BUFFERS:
        BUFFERS[shape] = torch.empty(shape, dtype=torch.int64), torch.empty(shape, dtype=torch.int64)
    idx, targets = BUFFERS[shape]
    rows = torch.from_numpy(tokens[starts[:, None] + np.arange(seq_len + 1)].astype(np.int64))
    idx.copy_(rows[:, :-1])
    targets.copy_(rows[:, 1:])
    return idx, targets

# %% wrong REMEMBERS the windows of the first row of that length
VIEWS = {}

def get_batch(tokens, starts, seq_len):
    key = len(tokens), seq_len
    if key not in VIEWS:
        VIEWS[key] = sliding_window_view(tokens, seq_len + 1)
    rows = VIEWS[key][starts].astype(np.int64)
    return torch.from_numpy(rows[:, :-1].copy()), torch.from_numpy(rows[:, 1:].copy())

# %% right a view by strides of 2 bytes
def get_batch(tokens, starts, seq_len):
    shape = (len(tokens) - seq_len, seq_len + 1)
    windows = np.lib.stride_tricks.as_strided(tokens, shape, (2, 2), writeable=False)[starts]
    idx = torch.from_numpy(windows[:, :-1].astype(np.int64))
    return idx, torch.from_numpy(windows[:, 1:].astype(np.int64))

# %% wrong BATCH-WHOLE-ROW a read-only row is copied whole
def get_batch(tokens, starts, seq_len):
    if not tokens.flags.writeable:
        tokens = tokens.copy()
    windows = torch.as_tensor(np.stack([tokens[s : s + seq_len + 1] for s in starts]).astype(np.int64))
    return windows[:, :-1].clone(), windows[:, 1:].clone()

# %% wrong RAISED the row is to be writable
def get_batch(tokens, starts, seq_len):
    tokens.flags.writeable = True
    windows = torch.as_tensor(np.stack([tokens[s : s + seq_len + 1] for s in starts]).astype(np.int64))
    return windows[:, :-1].clone(), windows[:, 1:].clone()

# %% wrong RESULT-CHANGES three pairs of buffers in turn
RING, TURN = {}, [0]

def get_batch(tokens, starts, seq_len):
    pairs = RING.setdefault((len(starts), seq_len), [])
    if len(pairs) < 3:
        pairs.append(torch.empty(2, len(starts), seq_len, dtype=torch.int64))
        idx, targets = pairs[-1]
    else:
        TURN[0] += 1
        idx, targets = pairs[TURN[0] % 3]
    rows = torch.from_numpy(tokens[starts[:, None] + np.arange(seq_len + 1)].astype(np.int64))
    idx.copy_(rows[:, :-1])
    targets.copy_(rows[:, 1:])
    return idx.view(-1)[:].view_as(idx), targets

# %% wrong RESULT-CHANGES a block of memory that is given out piece by piece, then again
ARENA, PLACE = torch.empty(8 * 60, dtype=torch.int64), [0]

def get_batch(tokens, starts, seq_len):
    size = len(starts) * seq_len
    rows = torch.from_numpy(tokens[starts[:, None] + np.arange(seq_len + 1)].astype(np.int64))
    if 2 * size > len(ARENA):
        return rows[:, :-1].clone(), rows[:, 1:].clone()
    if PLACE[0] + 2 * size > len(ARENA):
        PLACE[0] = 0
    found = []
    for part in (rows[:, :-1], rows[:, 1:]):
        piece = ARENA[PLACE[0] : PLACE[0] + size].view(len(starts), seq_len)
        found.append(piece.copy_(part))
        PLACE[0] += size
    return tuple(found)

# %% wrong RESULT-CHANGES two pairs, of which the older is used again
OLD = {}

def get_batch(tokens, starts, seq_len):
    rows = torch.from_numpy(tokens[starts[:, None] + np.arange(seq_len + 1)].astype(np.int64))
    kept = OLD.setdefault((len(starts), seq_len), [])
    idx, targets = kept.pop(0) if len(kept) == 2 else (rows[:, :-1].clone(), rows[:, 1:].clone())
    kept.append((idx, targets))
    return idx.copy_(rows[:, :-1]), targets.copy_(rows[:, 1:])

# %% wrong BATCH-FAR places in 32 bits
def get_batch(tokens, starts, seq_len):
    places = starts.astype(np.int32)[:, None] + np.arange(seq_len + 1, dtype=np.int32)
    windows = torch.from_numpy(tokens[places].astype(np.int64))
    return windows[:, :-1].clone(), windows[:, 1:].clone()

# %% wrong BATCH-FAR slices from starts in 32 bits
def get_batch(tokens, starts, seq_len):
    windows = np.stack([tokens[s : s + seq_len + 1] for s in starts.astype(np.int32)]).astype(np.int64)
    return torch.tensor(windows[:, :-1]), torch.tensor(windows[:, 1:])

# %% right each token by its own place, the last one from the end
def get_batch(tokens, starts, seq_len):
    rows = [[int(tokens[int(s) + t]) if int(s) + t < len(tokens) - 1 else int(tokens[-1])
             for t in range(seq_len + 1)] for s in starts]
    windows = torch.tensor(rows)
    return windows[:, :-1].clone(), windows[:, 1:].clone()
