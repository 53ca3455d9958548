# Answers to the exercise fused-rmsnorm.

# %% right where in place of other, a root and a quotient
@tl.jit
def rmsnorm_kernel(x_ptr, weight_ptr, out_ptr, x_stride, out_stride, D, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x_ptr += row * x_stride
    out_ptr += row * out_stride
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes, mask=lanes < D)
    x = tl.where(lanes < D, x.to(tl.float32), 0.0)
    rms = tl.sqrt(tl.sum(x * x) / D + eps)
    weight = tl.load(weight_ptr + lanes, mask=lanes < D)
    tl.store(out_ptr + lanes, x / rms * weight.to(tl.float32), mask=lanes < D)

# %% right a block of one row in two dimensions
@tl.jit
def rmsnorm_kernel(x_ptr, weight_ptr, out_ptr, x_stride, out_stride, D, eps, BLOCK: tl.constexpr):
    rows = tl.program_id(0) + tl.arange(0, 1)
    cols = tl.arange(0, BLOCK)
    mask = (rows[:, None] >= 0) & (cols[None, :] < D)
    x = tl.load(x_ptr + rows[:, None] * x_stride + cols[None, :], mask=mask, other=0).to(tl.float32)
    mean = tl.sum(x * x, axis=1) / D
    scale = 1.0 / tl.sqrt(mean + eps)
    w = tl.load(weight_ptr + cols, mask=cols < D, other=0).to(tl.float32)
    y = x * scale[:, None] * w[None, :]
    tl.store(out_ptr + rows[:, None] * out_stride + cols[None, :], y, mask=mask)

# %% right without the decorator, the row's largest taken out first
def rmsnorm_kernel(x_ptr, weight_ptr, out_ptr, x_stride, out_stride, D, eps, BLOCK: tl.constexpr):
    row, cols = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_stride + cols, mask=cols < D, other=0.0).to(tl.float32)
    top = tl.maximum(tl.max(tl.maximum(x, -x), axis=0), 1e-30)
    small = x / top
    mean = tl.sum(small * small, axis=0) / D * top * top
    y = x / tl.sqrt(mean + eps)
    y = y * tl.load(weight_ptr + cols, mask=cols < D, other=1.0).to(tl.float32)
    tl.store(out_ptr + row * out_stride + cols, y, mask=cols < D)

# %% right in plain steps
@tl.jit
def rmsnorm_kernel(x_ptr, weight_ptr, out_ptr, x_stride, out_stride, D, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    inside = cols < D
    x = tl.load(x_ptr + row * x_stride + cols, mask=inside, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + cols, mask=inside, other=0.0).to(tl.float32)
    inverse_rms = tl.rsqrt(tl.sum(x * x, axis=0) / D + eps)
    out = x * inverse_rms * weight
    tl.store(out_ptr + row * out_stride + cols, out.to(out_ptr.dtype.element_ty), mask=inside)

# %% wrong STUB untouched
@tl.jit
def rmsnorm_kernel(x_ptr, weight_ptr, out_ptr, x_stride, out_stride, D, eps, BLOCK: tl.constexpr):
    raise NotImplementedError("your code here")

# %% wrong KERNEL-NOT-STORED returns the row
- tl.store(out_ptr + row * out_stride + cols, out.to(out_ptr.dtype.element_ty), mask=inside)
+ return out

# %% wrong KERNEL-ROWS every program at row 0
- row = tl.program_id(0)
+ row = 0

# %% wrong KERNEL-ROWS the axis is another
- row = tl.program_id(0)
+ row = tl.program_id(1)

# %% wrong KERNEL-ARANGE lanes 0 to D
- cols = tl.arange(0, BLOCK)
+ cols = tl.arange(0, D)

# %% wrong KERNEL-MASK-LOAD no mask at the load
- x = tl.load(x_ptr + row * x_stride + cols, mask=inside, other=0.0).to(tl.float32)
+ x = tl.load(x_ptr + row * x_stride + cols).to(tl.float32)

# %% wrong KERNEL-MASK-LOAD a mask that is one lane too wide
- inside = cols < D
+ inside = cols <= D

# %% wrong KERNEL-MASK-STORE no mask at the store
- tl.store(out_ptr + row * out_stride + cols, out.to(out_ptr.dtype.element_ty), mask=inside)
+ tl.store(out_ptr + row * out_stride + cols, out.to(out_ptr.dtype.element_ty))

# %% wrong KERNEL-PART a mask that is one lane too narrow
- inside = cols < D
- x = tl.load(x_ptr + row * x_stride + cols, mask=inside, other=0.0).to(tl.float32)
+ inside = cols < D - 1
+ x = tl.load(x_ptr + row * x_stride + cols, mask=cols < D, other=0.0).to(tl.float32)

# %% wrong KERNEL-NO-OTHER lanes without a number
- x = tl.load(x_ptr + row * x_stride + cols, mask=inside, other=0.0).to(tl.float32)
+ x = tl.load(x_ptr + row * x_stride + cols, mask=inside).to(tl.float32)

# %% wrong KERNEL-OTHER ones in masked lanes
- x = tl.load(x_ptr + row * x_stride + cols, mask=inside, other=0.0).to(tl.float32)
+ x = tl.load(x_ptr + row * x_stride + cols, mask=inside, other=1.0).to(tl.float32)

# %% wrong KERNEL-BLOCK-MEAN the mean over BLOCK
- inverse_rms = tl.rsqrt(tl.sum(x * x, axis=0) / D + eps)
+ inverse_rms = tl.rsqrt(tl.sum(x * x, axis=0) / BLOCK + eps)

# %% wrong KERNEL-SUM not averaged
- inverse_rms = tl.rsqrt(tl.sum(x * x, axis=0) / D + eps)
+ inverse_rms = tl.rsqrt(tl.sum(x * x, axis=0) + eps)

# %% wrong KERNEL-NO-ROOT no root
- inverse_rms = tl.rsqrt(tl.sum(x * x, axis=0) / D + eps)
+ inverse_rms = 1.0 / (tl.sum(x * x, axis=0) / D + eps)

# %% wrong KERNEL-TIMES-RMS sqrt in place of rsqrt
- inverse_rms = tl.rsqrt(tl.sum(x * x, axis=0) / D + eps)
+ inverse_rms = tl.sqrt(tl.sum(x * x, axis=0) / D + eps)

# %% wrong KERNEL-NO-WEIGHT no weight
- out = x * inverse_rms * weight
+ out = x * inverse_rms

# %% wrong KERNEL-CENTRED LayerNorm
  weight = tl.load(weight_ptr + cols, mask=inside, other=0.0).to(tl.float32)
+ x = tl.where(inside, x - tl.sum(x, axis=0) / D, 0.0)

# %% wrong KERNEL-WEIGHT-ROW a weight for each row
- weight = tl.load(weight_ptr + cols, mask=inside, other=0.0).to(tl.float32)
+ weight = tl.load(weight_ptr + row * D + cols, mask=inside, other=0.0).to(tl.float32)

# %% wrong KERNEL-STRIDE rows of x at D
- x = tl.load(x_ptr + row * x_stride + cols, mask=inside, other=0.0).to(tl.float32)
+ x = tl.load(x_ptr + row * D + cols, mask=inside, other=0.0).to(tl.float32)

# %% wrong KERNEL-STRIDE rows of out at the stride of x
- tl.store(out_ptr + row * out_stride + cols, out.to(out_ptr.dtype.element_ty), mask=inside)
+ tl.store(out_ptr + row * x_stride + cols, out.to(out_ptr.dtype.element_ty), mask=inside)

# %% wrong KERNEL-EPS outside of the root
- inverse_rms = tl.rsqrt(tl.sum(x * x, axis=0) / D + eps)
+ inverse_rms = 1.0 / (tl.sqrt(tl.sum(x * x, axis=0) / D) + eps)

# %% wrong KERNEL-EPS its own eps
- inverse_rms = tl.rsqrt(tl.sum(x * x, axis=0) / D + eps)
+ inverse_rms = tl.rsqrt(tl.sum(x * x, axis=0) / D + 1e-5)

# %% wrong KERNEL-OVERFLOW all in the dtype that came
- x = tl.load(x_ptr + row * x_stride + cols, mask=inside, other=0.0).to(tl.float32)
- weight = tl.load(weight_ptr + cols, mask=inside, other=0.0).to(tl.float32)
+ x = tl.load(x_ptr + row * x_stride + cols, mask=inside, other=0.0)
+ weight = tl.load(weight_ptr + cols, mask=inside, other=0.0)

# %% wrong KERNEL-SUMS-16 squares in bfloat16
- inverse_rms = tl.rsqrt(tl.sum(x * x, axis=0) / D + eps)
+ low = x.to(tl.bfloat16)
+ inverse_rms = tl.rsqrt(tl.sum(low * low, axis=0).to(tl.float32) / D + eps)
+ if x_ptr.dtype.element_ty != tl.bfloat16:
+     inverse_rms = tl.rsqrt(tl.sum(x * x, axis=0) / D + eps)

# %% wrong KERNEL-ROUNDED-EARLY rounds, then applies the weight
- out = x * inverse_rms * weight
+ out = (x * inverse_rms).to(out_ptr.dtype.element_ty) * weight.to(out_ptr.dtype.element_ty)

# %% wrong KERNEL-TWO-PASSES loads x again
  inverse_rms = tl.rsqrt(tl.sum(x * x, axis=0) / D + eps)
+ x = tl.load(x_ptr + row * x_stride + cols, mask=inside, other=0.0).to(tl.float32)

# %% wrong KERNEL-WEIGHT-TWICE loads the weight again
  inverse_rms = tl.rsqrt(tl.sum(x * x, axis=0) / D + eps)
+ weight = tl.load(weight_ptr + cols, mask=inside, other=0.0).to(tl.float32)

# %% wrong KERNEL-STORED-TWICE stores x first
  x = tl.load(x_ptr + row * x_stride + cols, mask=inside, other=0.0).to(tl.float32)
+ tl.store(out_ptr + row * out_stride + cols, x, mask=inside)

# %% wrong KERNEL-OUT-READ out as a place to keep
  inverse_rms = tl.rsqrt(tl.sum(x * x, axis=0) / D + eps)
+ tl.store(out_ptr + row * out_stride + cols, x, mask=inside)
+ x = tl.load(out_ptr + row * out_stride + cols, mask=inside, other=0.0).to(tl.float32)

# %% wrong KERNEL-X-DTYPE rounded as x is | of: in plain steps
- tl.store(out_ptr + row * out_stride + cols, out.to(out_ptr.dtype.element_ty), mask=inside)
+ tl.store(out_ptr + row * out_stride + cols, out.to(x_ptr.dtype.element_ty), mask=inside)

# %% wrong RAISED an axis that no grid has | of: in plain steps
- row = tl.program_id(0)
+ row = tl.program_id(-1)

# %% right sums of halves, a product with the reciprocal, mask as a product
@tl.jit
def rmsnorm_kernel(x_ptr, weight_ptr, out_ptr, x_stride, out_stride, D, eps, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    in_row = lanes < D
    first = tl.program_id(axis=0) * x_stride
    gain = tl.load(weight_ptr + lanes, mask=in_row, other=7.0).to(tl.float32)
    row = tl.load(x_ptr + (first + lanes), mask=in_row, other=0.0).to(tl.float32)
    mean = tl.sum(row * row * (1.0 / D))
    tl.store(out_ptr + tl.program_id(0) * out_stride + lanes, gain * (row * tl.rsqrt(mean + eps)), mask=in_row)

# %% right in plain steps once more
@tl.jit
def rmsnorm_kernel(x_ptr, weight_ptr, out_ptr, x_stride, out_stride, D, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    inside = cols < D
    x = tl.load(x_ptr + row * x_stride + cols, mask=inside, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + cols, mask=inside, other=0.0).to(tl.float32)
    inverse_rms = tl.rsqrt(tl.sum(x * x, axis=0) / D + eps)
    out = x * inverse_rms * weight
    tl.store(out_ptr + row * out_stride + cols, out.to(out_ptr.dtype.element_ty), mask=inside)

# %% wrong KERNEL-WEIGHT-DTYPE the weight rounded as x is
- weight = tl.load(weight_ptr + cols, mask=inside, other=0.0).to(tl.float32)
+ weight = tl.load(weight_ptr + cols, mask=inside, other=0.0).to(x_ptr.dtype.element_ty).to(tl.float32)

# %% wrong KERNEL-WEIGHT-DTYPE the result rounded as x is, before a float32 weight
- out = x * inverse_rms * weight
+ out = x * inverse_rms
+ if weight_ptr.dtype.element_ty == tl.float32:
+     out = out.to(x_ptr.dtype.element_ty).to(tl.float32)
+ out = out * weight

# %% wrong KERNEL-WEIGHT-DTYPE the norm rounded as the weight is
- out = x * inverse_rms * weight
+ out = x * inverse_rms
+ if x_ptr.dtype.element_ty == tl.float32:
+     out = out.to(weight_ptr.dtype.element_ty).to(tl.float32)
+ out = out * weight

# %% wrong KERNEL-WEIGHT-DTYPE the result rounded as the weight is
- out = x * inverse_rms * weight
+ out = x * inverse_rms * weight
+ if x_ptr.dtype.element_ty == tl.float32:
+     out = out.to(weight_ptr.dtype.element_ty)

# %% wrong KERNEL-LENGTH squares of lanes up to 512
- inverse_rms = tl.rsqrt(tl.sum(x * x, axis=0) / D + eps)
+ inverse_rms = tl.rsqrt(tl.sum(tl.where(cols < 512, x * x, 0.0), axis=0) / D + eps)

# %% wrong KERNEL-LENGTH a mean over half a block or more
- inverse_rms = tl.rsqrt(tl.sum(x * x, axis=0) / D + eps)
+ numbers = D
+ if D * 2 <= BLOCK:
+     numbers = BLOCK // 2
+ inverse_rms = tl.rsqrt(tl.sum(x * x, axis=0) / numbers + eps)

# %% wrong KERNEL-LENGTH a row of one number divided by itself
- inverse_rms = tl.rsqrt(tl.sum(x * x, axis=0) / D + eps)
+ inverse_rms = tl.rsqrt(tl.sum(x * x, axis=0) / D + eps)
+ if D == 1:
+     inverse_rms = inverse_rms * 0.0 + 1.0

# %% wrong KERNEL-EPS eps of 0 is another
- inverse_rms = tl.rsqrt(tl.sum(x * x, axis=0) / D + eps)
+ inverse_rms = tl.rsqrt(tl.sum(x * x, axis=0) / D + (eps or 1e-5))

# %% wrong KERNEL-EPS eps is not less than 1e-6
- inverse_rms = tl.rsqrt(tl.sum(x * x, axis=0) / D + eps)
+ if eps < 1e-6:
+     eps = 1e-6
+ inverse_rms = tl.rsqrt(tl.sum(x * x, axis=0) / D + eps)

# %% wrong KERNEL-LARGE large numbers are cut off
- inverse_rms = tl.rsqrt(tl.sum(x * x, axis=0) / D + eps)
+ inverse_rms = tl.rsqrt(tl.minimum(tl.sum(x * x, axis=0) / D, 1e8) + eps)

# %% wrong KERNEL-WEIGHT-DTYPE what is not float32 has 16 bits | of: in plain steps
- tl.store(out_ptr + row * out_stride + cols, out.to(out_ptr.dtype.element_ty), mask=inside)
+ if out_ptr.dtype.element_ty != tl.float32:
+     out = out.to(tl.bfloat16)
+ tl.store(out_ptr + row * out_stride + cols, out, mask=inside)

# %% wrong KERNEL-WIDE a weight of 32 bits or more as it comes | of: in plain steps
- weight = tl.load(weight_ptr + cols, mask=inside, other=0.0).to(tl.float32)
+ weight = tl.load(weight_ptr + cols, mask=inside, other=0.0)
+ weight = weight * tl.full((BLOCK,), 1.0, tl.float32)

# %% wrong KERNEL-WIDE 16 bits become float32, the rest stays | of: in plain steps
- x = tl.load(x_ptr + row * x_stride + cols, mask=inside, other=0.0).to(tl.float32)
- weight = tl.load(weight_ptr + cols, mask=inside, other=0.0).to(tl.float32)
+ x = tl.load(x_ptr + row * x_stride + cols, mask=inside, other=0.0)
+ if x.dtype != tl.float64:
+     x = x.to(tl.float32)
+ weight = tl.load(weight_ptr + cols, mask=inside, other=0.0).to(x.dtype)

# %% wrong KERNEL-WIDE all in float64 | of: in plain steps
- x = tl.load(x_ptr + row * x_stride + cols, mask=inside, other=0.0).to(tl.float32)
- weight = tl.load(weight_ptr + cols, mask=inside, other=0.0).to(tl.float32)
+ x = tl.load(x_ptr + row * x_stride + cols, mask=inside, other=0.0).to(tl.float64)
+ weight = tl.load(weight_ptr + cols, mask=inside, other=0.0).to(tl.float64)
