# Answers to the exercise quantize-memory.

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

# %% right as the library has it
def weight_bytes(shapes, name):
    f, total = find_format(name), 0
    for *rows, length in shapes:
        count = math.prod(rows)
        blocks = -(-length // f.block) if f.block else 0
        bits = count * (length * f.bits + blocks * f.block_bits) + f.tensor_bits
        total += -(-bits // 8)
    return total

# %% wrong STUB untouched
def weight_bytes(shapes, name):
    raise NotImplementedError("your code here")

# %% wrong NONE no return
- return total

# %% wrong TYPE a quotient
- total += -(-bits // 8)
+ total += bits / 8

# %% wrong QUANT-BITS not divided
- total += -(-bits // 8)
+ total += bits

# %% wrong QUANT-NO-SCALES numbers alone
- bits = count * (length * f.bits + blocks * f.block_bits) + f.tensor_bits
+ bits = count * length * f.bits

# %% wrong QUANT-NO-SCALES no scales of blocks
- bits = count * (length * f.bits + blocks * f.block_bits) + f.tensor_bits
+ bits = count * (length * f.bits) + f.tensor_bits

# %% wrong QUANT-NO-TENSOR no scale of the tensor
- bits = count * (length * f.bits + blocks * f.block_bits) + f.tensor_bits
+ bits = count * (length * f.bits + blocks * f.block_bits)

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
- blocks = -(-length // f.block) if f.block else 0
+ blocks = length // f.block if f.block else 0

# %% wrong QUANT-EXTRA-BLOCK one more
- blocks = -(-length // f.block) if f.block else 0
+ blocks = length // f.block + 1 if f.block else 0

# %% wrong QUANT-FLAT blocks of the whole tensor
- count = math.prod(rows)
+ count, length = 1, math.prod(rows) * length

# %% wrong QUANT-PADDED whole blocks of numbers
- bits = count * (length * f.bits + blocks * f.block_bits) + f.tensor_bits
+ bits = count * (max(length, blocks * f.block) * f.bits + blocks * f.block_bits) + f.tensor_bits

# %% wrong QUANT-MASTER a float32 copy
- total += -(-bits // 8)
+ total += -(-bits // 8) + 4 * count * length

# %% wrong QUANT-HALF-BYTE rounded down
- total += -(-bits // 8)
+ total += bits // 8

# %% wrong QUANT-JOINED rounded once
-     total += -(-bits // 8)
- return total
+     total += bits
+ return -(-total // 8)

# %% wrong QUANT-ONE-ROW the last dimension
- count = math.prod(rows)
+ count = 1

# %% wrong QUANT-NAME an unknown name
- f, total = find_format(name), 0
+ f, total = FORMATS.get(name, FORMATS["fp32"]), 0

# %% wrong QUANT-NAME a KeyError
- f, total = find_format(name), 0
+ f, total = FORMATS[name], 0

# %% wrong OTHER the block as bits of a scale
- bits = count * (length * f.bits + blocks * f.block_bits) + f.tensor_bits
+ bits = count * (length * f.bits + blocks * f.block) + f.tensor_bits

# %% wrong RAISED a name without a value
- bits = count * (length * f.bits + blocks * f.block_bits) + f.tensor_bits
+ bits = count * (length * bits_each + blocks * f.block_bits) + f.tensor_bits

# %% wrong QUANT-ONCE two loops over the shapes | of: as the library has it
- f, total = find_format(name), 0
+ f, total = find_format(name), 0
+ if not sum(1 for _ in shapes):
+     return 0
