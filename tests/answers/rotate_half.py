# Answers to the exercise rotate-half. `# %% wrong CODE name` must be refused with exactly that code,
# `# %% right name` must pass. Each cell is a whole answer under the lesson's imports.

# %% right slices
def rotate_half(x):
    half = x.shape[-1] // 2
    return torch.cat([-x[..., half:], x[..., :half]], dim=-1)

# %% right roll and a sign vector
def rotate_half(x: Tensor) -> Tensor:
    K = x.size(-1)
    sign = torch.ones(K, dtype=x.dtype)
    sign[: K // 2] = -1
    return x.roll(K // 2, dims=-1) * sign

# %% right complex numbers in float64
def rotate_half(x):
    a, b = x.double().split(x.shape[-1] // 2, dim=-1)
    z = torch.complex(a, b) * torch.tensor(1j)
    return torch.cat((z.real, z.imag), -1).to(x.dtype)

# %% right a matrix and einsum
def rotate_half(x):
    h = x.shape[-1] // 2
    turn = torch.zeros(2 * h, 2 * h, dtype=x.dtype)
    turn[:h, h:] = -torch.eye(h)
    turn[h:, :h] = torch.eye(h)
    return torch.einsum("ij,...j->...i", turn, x)

# %% right a buffer filled in place
def rotate_half(x):
    out, h = torch.empty_like(x), x.shape[-1] // 2
    out[..., :h] = -x[..., h:]
    out[..., h:] = x[..., :h]
    return out

# %% right unflatten and flip
def rotate_half(x):
    first, second = x.unflatten(-1, (2, -1)).unbind(-2)
    return torch.stack((-second, first), dim=-2).flatten(-2)

# %% wrong STUB untouched
def rotate_half(x: Tensor) -> Tensor:
    raise NotImplementedError("your code here")

# %% wrong NONE no return
def rotate_half(x):
    first, second = x.chunk(2, dim=-1)
    torch.cat((-second, first), dim=-1)

# %% wrong TYPE returns the two halves
def rotate_half(x):
    first, second = x.chunk(2, dim=-1)
    return -second, first

# %% wrong SHAPE stacked
def rotate_half(x):
    first, second = x.chunk(2, dim=-1)
    return torch.stack((-second, first), dim=-1)

# %% wrong SHAPE chunked along K, joined along the first
def rotate_half(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first))

# %% wrong ROPE-INTERLEAVED every other number
def rotate_half(x):
    return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)

# %% wrong ROPE-INTERLEAVED halves shuffled at the end
def rotate_half(x):
    first, second = x.chunk(2, dim=-1)
    return torch.stack((-second, first), dim=-1).reshape(x.shape)

# %% wrong ROPE-NO-SIGN only swapped
def rotate_half(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((second, first), dim=-1)

# %% wrong ROPE-NO-SIGN a roll
def rotate_half(x):
    return x.roll(x.shape[-1] // 2, dims=-1)

# %% wrong ROPE-SIGN the wrong half negated
def rotate_half(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((second, -first), dim=-1)

# %% wrong ROPE-SIGN both negated
def rotate_half(x):
    first, second = x.chunk(2, dim=-1)
    return -torch.cat((second, first), dim=-1)

# %% wrong ROPE-NO-SWAP sign without swap
def rotate_half(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-first, second), dim=-1)

# %% wrong ROPE-NO-SWAP the other sign without swap
def rotate_half(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first, -second), dim=-1)

# %% wrong ROPE-NO-SWAP the input
def rotate_half(x):
    first, second = x.chunk(2, dim=-1)
    rotated = torch.cat((-second, first), dim=-1)
    return x

# %% wrong ROPE-NO-SWAP a half turn
def rotate_half(x):
    return -x

# %% wrong ROPE-DIM split along the sequence
def rotate_half(x):
    first, second = x.chunk(2, dim=-2)
    return torch.cat((-second, first), dim=-2)

# %% wrong ROPE-DIM split along the batch
def rotate_half(x):
    first, second = x.chunk(2)
    return torch.cat((-second, first))

# %% wrong ROPE-DIM slices without the dots
def rotate_half(x):
    half = x.shape[0] // 2
    return torch.cat((-x[half:], x[:half]))

# %% wrong ROPE-OVERWRITTEN first half read too late
def rotate_half(x):
    out, h = x.clone(), x.shape[-1] // 2
    out[..., :h] = -out[..., h:]
    out[..., h:] = -out[..., :h].neg()
    return out

# %% wrong ROPE-OVERWRITTEN second half read too late
def rotate_half(x):
    out, h = x.clone(), x.shape[-1] // 2
    out[..., h:] = out[..., :h]
    out[..., :h] = -out[..., h:]
    return out

# %% wrong ROPE-REVERSED flipped
def rotate_half(x):
    x = x.flip(-1)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-first, second), dim=-1)

# %% wrong ROPE-REVERSED flipped without sign
def rotate_half(x):
    return x.flip(-1)

# %% wrong SHAPE a fixed half
def rotate_half(x):
    return torch.cat((-x[..., 2:4], x[..., :2]), dim=-1)

# %% wrong OTHER a fixed cut
def rotate_half(x):
    first, second = x[..., :-4], x[..., -4:]
    if x.shape[-1] == 4:
        first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)

# %% wrong INPLACE writes into x
def rotate_half(x):
    h = x.shape[-1] // 2
    first = x[..., :h].clone()
    x[..., :h] = -x[..., h:]
    x[..., h:] = first
    return x

# %% wrong DTYPE float32 out
def rotate_half(x):
    out, h = torch.zeros(x.shape), x.shape[-1] // 2
    out[..., :h] = -x[..., h:]
    out[..., h:] = x[..., :h]
    return out

# %% wrong RAISED a fixed number of dimensions
def rotate_half(x):
    B, H, T, K = x.shape
    return torch.cat((-x[:, :, :, K // 2 :], x[:, :, :, : K // 2]), dim=3)

# %% wrong RAISED a float index
def rotate_half(x):
    half = x.shape[-1] / 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)

# %% wrong ROPE-NO-GRAD through a list
def rotate_half(x):
    first, second = x.chunk(2, dim=-1)
    return torch.tensor(torch.cat((-second, first), dim=-1).tolist(), dtype=x.dtype)

# %% wrong ROPE-NO-GRAD one half detached
def rotate_half(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second.detach(), first), dim=-1)

# %% wrong STRIDED views rows
def rotate_half(x):
    rows = x.view(-1, x.shape[-1])
    first, second = rows.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1).view(x.shape)

# %% right rows by reshape
def rotate_half(x):
    first, second = x.reshape(-1, x.shape[-1]).chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1).reshape(x.shape)

# %% right stacked halves, flipped and signed
def rotate_half(x):
    halves = x.unflatten(-1, (2, -1))
    sign = x.new_tensor([-1, 1]).unsqueeze(-1)
    return (halves.flip(-2) * sign).flatten(-2)

# %% wrong OTHER float64 through float32
def rotate_half(x):
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1).to(x.dtype)

# %% wrong OTHER float16 through bfloat16
def rotate_half(x):
    first, second = (x.bfloat16() if x.dtype == torch.float16 else x).chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1).to(x.dtype)

# %% wrong ROPE-LIMITED numbers cut off at the range of float16
def rotate_half(x):
    first, second = x.clamp(-65504, 65504).chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)

# %% wrong REMEMBERS results kept by shape
def rotate_half(x, kept={}):
    first, second = x.chunk(2, dim=-1)
    if x.requires_grad or (x.shape, x.dtype) not in kept or x.dim() != 3:
        kept[x.shape, x.dtype] = torch.cat((-second, first), dim=-1)
    return kept[x.shape, x.dtype]

# %% wrong RESULT-CHANGES a buffer for each shape
ROOM = {}

def rotate_half(x):
    first, second = x.chunk(2, dim=-1)
    if x.requires_grad:
        return torch.cat((-second, first), dim=-1)
    out = ROOM.setdefault((x.shape, x.dtype), torch.empty_like(x))
    return out.copy_(torch.cat((-second, first), dim=-1))

# %% wrong INPLACE writes into x without gradients | of: slices
- return torch.cat([-x[..., half:], x[..., :half]], dim=-1)
+ out = torch.cat([-x[..., half:], x[..., :half]], dim=-1)
+ return out if torch.is_grad_enabled() else x.copy_(out)

# %% wrong ROPE-DIM split along dimension 3 at most
def rotate_half(x):
    dim = min(3, x.dim() - 1)
    first, second = x.chunk(2, dim=dim)
    return torch.cat((-second, first), dim=dim)

# %% wrong ROPE-DIM split along dimension 4 at most
def rotate_half(x):
    dim = min(4, x.dim() - 1)
    first, second = x.chunk(2, dim=dim)
    return torch.cat((-second, first), dim=dim)

# %% wrong ROPE-DIM a matrix along its rows
def rotate_half(x):
    dim = 0 if x.dim() == 2 else -1
    first, second = x.chunk(2, dim=dim)
    return torch.cat((-second, first), dim=dim)

# %% wrong STRIDED a room with the strides of x | of: a buffer filled in place
- out, h = torch.empty_like(x), x.shape[-1] // 2
+ out = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype)
+ h = x.shape[-1] // 2

# %% wrong REMEMBERS results in bfloat16 kept by shape | of: slices
- return torch.cat([-x[..., half:], x[..., :half]], dim=-1)
+ out = torch.cat([-x[..., half:], x[..., :half]], dim=-1)
+ if x.dtype == torch.bfloat16:
+     out = globals().setdefault("KEPT", {}).setdefault(x.shape, out.clone()).clone()
+ return out

# %% wrong RESULT-CHANGES one room for a single vector | of: slices
- return torch.cat([-x[..., half:], x[..., :half]], dim=-1)
+ out = torch.cat([-x[..., half:], x[..., :half]], dim=-1)
+ if x.numel() == x.shape[-1]:
+     room = globals().setdefault("ROOM", {}).setdefault((x.shape, x.dtype), out.detach())
+     out = out if out.requires_grad else room.copy_(out)
+ return out

# %% wrong RESULT-CHANGES two rooms that take turns where T is 1 | of: slices
- return torch.cat([-x[..., half:], x[..., :half]], dim=-1)
+ out = torch.cat([-x[..., half:], x[..., :half]], dim=-1)
+ if x.dim() == 4 and x.shape[2] == 1 and not x.requires_grad:
+     rooms = globals().setdefault("ROOMS", {}).setdefault((x.shape, x.dtype), [])
+     if len(rooms) < 2:
+         rooms.append(torch.empty_like(out))
+     rooms.append(rooms.pop(0))
+     out = rooms[-1].copy_(out)
+ return out

# %% wrong REMEMBERS the result of one vector kept by its address | of: slices
- return torch.cat([-x[..., half:], x[..., :half]], dim=-1)
+ out = torch.cat([-x[..., half:], x[..., :half]], dim=-1)
+ if x.numel() == x.shape[-1] and not x.requires_grad:
+     kept = globals().setdefault("KEPT", {})
+     found = kept.setdefault((x.data_ptr(), x.shape, x.dtype), (x, out))
+     out = found[1].clone()
+ return out

# %% wrong RAISED rows by a size that torch infers | of: slices
- return torch.cat([-x[..., half:], x[..., :half]], dim=-1)
+ first, second = x.reshape(*x.shape[:-1], -1, half).unbind(-2)
+ return torch.cat([-second, first], dim=-1)

# %% wrong RAISED a largest number asked of x | of: slices
- return torch.cat([-x[..., half:], x[..., :half]], dim=-1)
+ assert x.detach().abs().max() < float("inf"), "x must be finite"
+ return torch.cat([-x[..., half:], x[..., :half]], dim=-1)

# %% wrong OTHER a single token not turned | of: slices
- return torch.cat([-x[..., half:], x[..., :half]], dim=-1)
+ if x.dim() == 3 and x.shape[:2] == (1, 1):
+     return x.clone()
+ return torch.cat([-x[..., half:], x[..., :half]], dim=-1)
