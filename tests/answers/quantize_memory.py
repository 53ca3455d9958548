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
        ((math.prod(s) // s[-1] * row_bits(s[-1]) if s[-1] else 0) + f.tensor_bits + 7) >> 3
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

# %% right fractions, and one list of bits
def weight_bytes(shapes, name):
    from fractions import Fraction
    f = find_format(name)
    bits = []
    for shape in map(list, shapes):
        length = shape.pop()
        parts = [f.bits] * 1, [f.block_bits] * 1
        row = length * sum(parts[0]) + (sum(parts[1]) * (length // f.block + bool(length % f.block)) if f.block else 0)
        bits.append(math.prod(shape) * row + f.tensor_bits)
    return sum(math.ceil(Fraction(b, 8)) for b in bits)

# %% right scales apart from numbers, each in whole bytes
def weight_bytes(shapes, name):
    f, total = find_format(name), 0
    for *rows, length in shapes:
        count = math.prod(rows)
        numbers = (count * length * f.bits + 7) // 8
        scales = count * len(range(0, length, f.block)) * f.block_bits // 8 if f.block else 0
        total += numbers + scales + f.tensor_bits // 8
    return total

# %% wrong QUANT-SAME-SHAPE equal shapes counted once | of: as the library has it
- for *rows, length in shapes:
+ for *rows, length in dict.fromkeys(map(tuple, shapes)):

# %% wrong QUANT-FLOAT through a float | of: as the library has it
- total += -(-bits // 8)
+ total += math.ceil(bits / 8)

# %% wrong QUANT-FLOAT a count in float32 | of: as the library has it
- count = math.prod(rows)
+ count = int(torch.tensor([float(r) for r in rows]).prod())

# %% wrong RAISED tuples alone | of: as the library has it
- for *rows, length in shapes:
+ for shape in shapes:
+     *rows, length = shape + ()

# %% wrong QUANT-EMPTY an empty tensor has no scale | of: as the library has it
- bits = count * (length * f.bits + blocks * f.block_bits) + f.tensor_bits
+ bits = count * (length * f.bits + blocks * f.block_bits) + (f.tensor_bits if count * length else 0)

# %% wrong QUANT-EMPTY a block at least | of: as the library has it
- blocks = -(-length // f.block) if f.block else 0
+ blocks = max(1, -(-length // f.block)) if f.block else 0

# %% wrong QUANT-ONE-ROW a row at least | of: as the library has it
- count = math.prod(rows)
+ count = math.prod(rows) or 1

# %% wrong QUANT-TABLE a table of its own | of: as the library has it
- bits = count * (length * f.bits + blocks * f.block_bits) + f.tensor_bits
+ width = {"mxfp4": 4, "nvfp4": 4, "int8": 8, "mxfp8": 8, "e4m3": 8, "e5m2": 8, "bf16": 16, "fp16": 16}.get(name, 32)
+ bits = count * (length * width + blocks * f.block_bits) + f.tensor_bits

# %% wrong QUANT-TABLE blocks by the name | of: as the library has it
- blocks = -(-length // f.block) if f.block else 0
+ blocks = -(-length // (16 if "nv" in name else 32)) if f.block else 0

# %% wrong QUANT-TABLE scales of one byte | of: as the library has it
- bits = count * (length * f.bits + blocks * f.block_bits) + f.tensor_bits
+ bits = count * (length * f.bits + blocks * 8) + f.tensor_bits

# %% wrong QUANT-TABLE a float32 scale for each tensor | of: as the library has it
- bits = count * (length * f.bits + blocks * f.block_bits) + f.tensor_bits
+ bits = count * (length * f.bits + blocks * f.block_bits) + (32 if f.tensor_bits else 0)

# %% wrong OTHER e5m2 taken for two bytes | of: as the library has it
- bits = count * (length * f.bits + blocks * f.block_bits) + f.tensor_bits
+ bits = count * (length * (16 if name == "e5m2" else f.bits) + blocks * f.block_bits) + f.tensor_bits

# %% wrong OTHER fp16 in four bytes | of: as the library has it
- bits = count * (length * f.bits + blocks * f.block_bits) + f.tensor_bits
+ bits = count * (length * (32 if name == "fp16" else f.bits) + blocks * f.block_bits) + f.tensor_bits

# %% wrong QUANT-EMPTY a generator of nothing is true | of: as the library has it
- for *rows, length in shapes:
+ if not shapes:
+     return 0
+ first, *others = shapes
+ for *rows, length in (first, *others):

# %% wrong QUANT-EMPTY the scale of a tensor where there is none | of: as the library has it
- return total
+ return total or f.tensor_bits // 8

# %% wrong QUANT-EMPTY ends at an empty tensor | of: as the library has it
  count = math.prod(rows)
+ if not count * length:
+     return total + f.tensor_bits // 8

# %% wrong QUANT-NAME the name is looked up for each tensor | of: as the library has it
- f, total = find_format(name), 0
+ total = 0

  count = math.prod(rows)
+ f = find_format(name)

# %% wrong QUANT-WRAPS bits in a tensor | of: as the library has it
- bits = count * (length * f.bits + blocks * f.block_bits) + f.tensor_bits
+ bits = (torch.tensor(count) * (length * f.bits + blocks * f.block_bits) + f.tensor_bits).item()

# %% wrong QUANT-WRAPS bits in 64 bits without a sign | of: as the library has it
- bits = count * (length * f.bits + blocks * f.block_bits) + f.tensor_bits
+ bits = (count * (length * f.bits + blocks * f.block_bits) + f.tensor_bits) % 2**64
