# Answers to the exercise quantize-memory.

# %% right as the library has it
def weight_bytes(shapes, name):
    f, total = find_format(name), 0
    for *rows, length in shapes:
        count = math.prod(rows)
        blocks = -(-length // f.block) if f.block else 0
        bits = count * (length * f.bits + blocks * f.block_bits) + f.tensor_bits
        total += -(-bits // 8)
    return total

# %% right row by row
def weight_bytes(shapes, name):
    f = find_format(name)

    def row_bits(length):
        scales = 0
        if f.block:
            scales, rest = divmod(length, f.block)
            scales += rest > 0
        return length * f.bits + int(scales) * f.block_bits

    return sum(
        math.ceil((math.prod(s) // s[-1] * row_bits(s[-1]) if s[-1] else 0) / 8 + f.tensor_bits / 8)
        for s in shapes
    )

# %% right on tensors of the meta device
def weight_bytes(shapes, name):
    f = find_format(name)
    total = 0
    for shape in shapes:
        numbers = torch.empty(shape, device="meta")
        bits = numbers.numel() * f.bits + f.tensor_bits
        if f.block:
            bits += f.block_bits * sum(p.numel() // max(p.shape[-1], 1) for p in numbers.split(f.block, dim=-1) if p.shape[-1])
        total += (bits + 7) // 8
    return total

# %% wrong STUB untouched
def weight_bytes(shapes, name):
    raise NotImplementedError("your code here")

# %% wrong NONE no return
def weight_bytes(shapes, name):
    f, total = find_format(name), 0
    for *rows, length in shapes:
        count = math.prod(rows)
        blocks = -(-length // f.block) if f.block else 0
        bits = count * (length * f.bits + blocks * f.block_bits) + f.tensor_bits
        total += -(-bits // 8)

# %% wrong TYPE a quotient
def weight_bytes(shapes, name):
    f, total = find_format(name), 0
    for *rows, length in shapes:
        count = math.prod(rows)
        blocks = -(-length // f.block) if f.block else 0
        bits = count * (length * f.bits + blocks * f.block_bits) + f.tensor_bits
        total += bits / 8
    return total

# %% wrong QUANT-BITS not divided
def weight_bytes(shapes, name):
    f, total = find_format(name), 0
    for *rows, length in shapes:
        count = math.prod(rows)
        blocks = -(-length // f.block) if f.block else 0
        bits = count * (length * f.bits + blocks * f.block_bits) + f.tensor_bits
        total += bits
    return total

# %% wrong QUANT-NO-SCALES numbers alone
def weight_bytes(shapes, name):
    f, total = find_format(name), 0
    for *rows, length in shapes:
        count = math.prod(rows)
        blocks = -(-length // f.block) if f.block else 0
        bits = count * length * f.bits
        total += -(-bits // 8)
    return total

# %% wrong QUANT-NO-SCALES no scales of blocks
def weight_bytes(shapes, name):
    f, total = find_format(name), 0
    for *rows, length in shapes:
        count = math.prod(rows)
        blocks = -(-length // f.block) if f.block else 0
        bits = count * (length * f.bits) + f.tensor_bits
        total += -(-bits // 8)
    return total

# %% wrong QUANT-NO-TENSOR no scale of the tensor
def weight_bytes(shapes, name):
    f, total = find_format(name), 0
    for *rows, length in shapes:
        count = math.prod(rows)
        blocks = -(-length // f.block) if f.block else 0
        bits = count * (length * f.bits + blocks * f.block_bits)
        total += -(-bits // 8)
    return total

# %% wrong QUANT-TENSOR-ONCE one for the model
def weight_bytes(shapes, name):
    f, total = find_format(name), 0
    for *rows, length in shapes:
        count = math.prod(rows)
        blocks = -(-length // f.block) if f.block else 0
        bits = count * (length * f.bits + blocks * f.block_bits)
        total += -(-bits // 8)
    return total + f.tensor_bits // 8

# %% wrong QUANT-PARTIAL rounded down
def weight_bytes(shapes, name):
    f, total = find_format(name), 0
    for *rows, length in shapes:
        count = math.prod(rows)
        blocks = length // f.block if f.block else 0
        bits = count * (length * f.bits + blocks * f.block_bits) + f.tensor_bits
        total += -(-bits // 8)
    return total

# %% wrong QUANT-EXTRA-BLOCK one more
def weight_bytes(shapes, name):
    f, total = find_format(name), 0
    for *rows, length in shapes:
        count = math.prod(rows)
        blocks = length // f.block + 1 if f.block else 0
        bits = count * (length * f.bits + blocks * f.block_bits) + f.tensor_bits
        total += -(-bits // 8)
    return total

# %% wrong QUANT-FLAT blocks of the whole tensor
def weight_bytes(shapes, name):
    f, total = find_format(name), 0
    for *rows, length in shapes:
        count, length = 1, math.prod(rows) * length
        blocks = -(-length // f.block) if f.block else 0
        bits = count * (length * f.bits + blocks * f.block_bits) + f.tensor_bits
        total += -(-bits // 8)
    return total

# %% wrong QUANT-PADDED whole blocks of numbers
def weight_bytes(shapes, name):
    f, total = find_format(name), 0
    for *rows, length in shapes:
        count = math.prod(rows)
        blocks = -(-length // f.block) if f.block else 0
        bits = count * (max(length, blocks * f.block) * f.bits + blocks * f.block_bits) + f.tensor_bits
        total += -(-bits // 8)
    return total

# %% wrong QUANT-MASTER a float32 copy
def weight_bytes(shapes, name):
    f, total = find_format(name), 0
    for *rows, length in shapes:
        count = math.prod(rows)
        blocks = -(-length // f.block) if f.block else 0
        bits = count * (length * f.bits + blocks * f.block_bits) + f.tensor_bits
        total += -(-bits // 8) + 4 * count * length
    return total

# %% wrong QUANT-HALF-BYTE rounded down
def weight_bytes(shapes, name):
    f, total = find_format(name), 0
    for *rows, length in shapes:
        count = math.prod(rows)
        blocks = -(-length // f.block) if f.block else 0
        bits = count * (length * f.bits + blocks * f.block_bits) + f.tensor_bits
        total += bits // 8
    return total

# %% wrong QUANT-JOINED rounded once
def weight_bytes(shapes, name):
    f, total = find_format(name), 0
    for *rows, length in shapes:
        count = math.prod(rows)
        blocks = -(-length // f.block) if f.block else 0
        bits = count * (length * f.bits + blocks * f.block_bits) + f.tensor_bits
        total += bits
    return -(-total // 8)

# %% wrong QUANT-ONE-ROW the last dimension
def weight_bytes(shapes, name):
    f, total = find_format(name), 0
    for *rows, length in shapes:
        count = 1
        blocks = -(-length // f.block) if f.block else 0
        bits = count * (length * f.bits + blocks * f.block_bits) + f.tensor_bits
        total += -(-bits // 8)
    return total

# %% wrong QUANT-NAME an unknown name
def weight_bytes(shapes, name):
    f, total = FORMATS.get(name, FORMATS["fp32"]), 0
    for *rows, length in shapes:
        count = math.prod(rows)
        blocks = -(-length // f.block) if f.block else 0
        bits = count * (length * f.bits + blocks * f.block_bits) + f.tensor_bits
        total += -(-bits // 8)
    return total

# %% wrong QUANT-NAME a KeyError
def weight_bytes(shapes, name):
    f, total = FORMATS[name], 0
    for *rows, length in shapes:
        count = math.prod(rows)
        blocks = -(-length // f.block) if f.block else 0
        bits = count * (length * f.bits + blocks * f.block_bits) + f.tensor_bits
        total += -(-bits // 8)
    return total

# %% wrong OTHER the block as bits of a scale
def weight_bytes(shapes, name):
    f, total = find_format(name), 0
    for *rows, length in shapes:
        count = math.prod(rows)
        blocks = -(-length // f.block) if f.block else 0
        bits = count * (length * f.bits + blocks * f.block) + f.tensor_bits
        total += -(-bits // 8)
    return total

# %% wrong RAISED a name without a value
def weight_bytes(shapes, name):
    f, total = find_format(name), 0
    for *rows, length in shapes:
        count = math.prod(rows)
        blocks = -(-length // f.block) if f.block else 0
        bits = count * (length * bits_each + blocks * f.block_bits) + f.tensor_bits
        total += -(-bits // 8)
    return total
