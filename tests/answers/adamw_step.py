# Answers to the exercise adamw-step.

# %% right as torch writes it, in place on copies
@torch.no_grad()
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step <= 0:
        raise ValueError("step counts from 1")
    param, m, v = param.clone(), m.clone(), v.clone()
    param.mul_(1 - lr * weight_decay)
    m.lerp_(grad, 1 - betas[0])
    v.mul_(betas[1]).addcmul_(grad, grad, value=1 - betas[1])
    root = (v.sqrt() / math.sqrt(1 - betas[1] ** step)).add_(eps)
    param.addcdiv_(m, root, value=-lr / (1 - betas[0] ** step))
    return param, m, v

# %% right in float64, decay as a part of the step
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if not step >= 1:
        raise ValueError(step)
    dtype, g = param.dtype, grad.double()
    new_m = betas[0] * m.double() + g - betas[0] * g
    new_v = betas[1] * v.double() + (1 - betas[1]) * torch.square(g)
    m_hat, v_hat = (x / (1 - beta**step) for x, beta in zip((new_m, new_v), betas))
    update = m_hat / (torch.sqrt(v_hat) + eps) + weight_decay * param
    return (param - lr * update).to(dtype), new_m.to(dtype), new_v.to(dtype)

# %% right lerp and powers
def adamw_step(param: Tensor, grad: Tensor, m: Tensor, v: Tensor, step: int, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError("no update before the first")
    m = torch.lerp(grad, m, betas[0])
    v = torch.lerp(grad.pow(2), v, betas[1])
    scale = (v / (1 - betas[1] ** step)).pow(0.5) + eps
    return param.mul(1 - lr * weight_decay).sub(m / (1 - betas[0] ** step) / scale, alpha=lr), m, v

# %% right in plain steps
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError(f"step {step}, counted from 1")
    b1, b2 = betas
    m = b1 * m + (1 - b1) * grad
    v = b2 * v + (1 - b2) * grad * grad
    m_hat = m / (1 - b1**step)
    v_hat = v / (1 - b2**step)
    param = param - lr * weight_decay * param
    param = param - lr * m_hat / (v_hat.sqrt() + eps)
    return param, m, v

# %% wrong STUB untouched
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    raise NotImplementedError("your code here")

# %% wrong NONE no return
- return param, m, v
+ p = param, m, v

# %% wrong ADAMW-TRIPLE the weights alone
- return param, m, v
+ return param

# %% wrong ADAMW-TRIPLE a pair
- return param, m, v
+ return param, (m, v)

# %% wrong ADAMW-ORDER state first
- return param, m, v
+ return m, v, param

# %% wrong ADAMW-ORDER v before m
- return param, m, v
+ return param, v, m

# %% wrong INPLACE param in place
- param = param - lr * weight_decay * param
+ param.sub_(lr * weight_decay * param)

# %% wrong INPLACE m in place
- m = b1 * m + (1 - b1) * grad
+ m.mul_(b1).add_(grad, alpha=1 - b1)

# %% wrong DTYPE always float32
- return param, m, v
+ return param.float(), m, v

# %% wrong ADAMW-BETAS betas exchanged
- b1, b2 = betas
+ b2, b1 = betas

# %% wrong ADAMW-BETAS one beta for both
- v = b2 * v + (1 - b2) * grad * grad
+ v = b1 * v + (1 - b1) * grad * grad

# %% wrong ADAMW-MIRRORED keeps a tenth
- m = b1 * m + (1 - b1) * grad
+ m = (1 - b1) * m + b1 * grad

# %% wrong ADAMW-SUM heavy ball momentum
- m = b1 * m + (1 - b1) * grad
+ m = b1 * m + grad

# %% wrong ADAMW-SUM sum of squares
- v = b2 * v + (1 - b2) * grad * grad
+ v = b2 * v + grad * grad

# %% wrong ADAMW-NOT-SQUARED v of gradients
- v = b2 * v + (1 - b2) * grad * grad
+ v = b2 * v + (1 - b2) * grad

# %% wrong ADAMW-NOT-SQUARED v of sizes
- v = b2 * v + (1 - b2) * grad * grad
+ v = b2 * v + (1 - b2) * grad.abs()

# %% wrong ADAMW-SQUARE-OF-MEAN v of m squared
- v = b2 * v + (1 - b2) * grad * grad
+ v = b2 * v + (1 - b2) * m * m

# %% wrong ADAMW-STATE-OLD returns the old state
  b1, b2 = betas
+ old = m, v

- return param, m, v
+ return param, *old

# %% wrong ADAMW-STATE-CORRECTED returns corrected means
- return param, m, v
+ return param, m_hat, v_hat

# %% wrong ADAMW-STATE-CORRECTED corrects m under its own name
- m_hat = m / (1 - b1**step)
+ m = m / (1 - b1**step)

- param = param - lr * m_hat / (v_hat.sqrt() + eps)
+ param = param - lr * m / (v_hat.sqrt() + eps)

# %% wrong ADAMW-NO-CORRECTION the toy of the notes
- m_hat = m / (1 - b1**step)
- v_hat = v / (1 - b2**step)
+ m_hat, v_hat = m, v

# %% wrong ADAMW-ONE-CORRECTION v not corrected
- v_hat = v / (1 - b2**step)
+ v_hat = v

# %% wrong ADAMW-ONE-CORRECTION m not corrected
- m_hat = m / (1 - b1**step)
+ m_hat = m

# %% wrong ADAMW-WRONG-CORRECTION the root corrected
- v_hat = v / (1 - b2**step)
+ v_hat = v.sqrt() / (1 - b2**step)
  param = param - lr * weight_decay * param
- param = param - lr * m_hat / (v_hat.sqrt() + eps)
+ param = param - lr * m_hat / (v_hat + eps)

# %% wrong ADAMW-WRONG-CORRECTION v corrected with beta1
- v_hat = v / (1 - b2**step)
+ v_hat = v / (1 - b1**step)

# %% wrong ADAMW-WRONG-CORRECTION multiplied
- m_hat = m / (1 - b1**step)
- v_hat = v / (1 - b2**step)
+ m_hat = m * (1 - b1**step)
+ v_hat = v * (1 - b2**step)

# %% wrong ADAMW-STEP-OFF counts from 0
- m_hat = m / (1 - b1**step)
- v_hat = v / (1 - b2**step)
+ m_hat = m / (1 - b1 ** (step - 1))
+ v_hat = v / (1 - b2 ** (step - 1))

# %% wrong ADAMW-STEP-OFF one too many
- m_hat = m / (1 - b1**step)
- v_hat = v / (1 - b2**step)
+ m_hat = m / (1 - b1 ** (step + 1))
+ v_hat = v / (1 - b2 ** (step + 1))

# %% wrong ADAMW-FIXED-STEP no power
- m_hat = m / (1 - b1**step)
- v_hat = v / (1 - b2**step)
+ m_hat = m / (1 - b1)
+ v_hat = v / (1 - b2)

# %% wrong ADAMW-UPHILL plus
- param = param - lr * m_hat / (v_hat.sqrt() + eps)
+ param = param + lr * m_hat / (v_hat.sqrt() + eps)

# %% wrong ADAMW-SGD momentum alone
- param = param - lr * m_hat / (v_hat.sqrt() + eps)
+ param = param - lr * m_hat

# %% wrong ADAMW-NO-ROOT divides by v
- param = param - lr * m_hat / (v_hat.sqrt() + eps)
+ param = param - lr * m_hat / (v_hat + eps)

# %% wrong ADAMW-NO-LR no rate
- param = param - lr * m_hat / (v_hat.sqrt() + eps)
+ param = param - m_hat / (v_hat.sqrt() + eps)

# %% wrong ADAMW-OLD-STATE steps before it looks
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError(f"step {step}, counted from 1")
    b1, b2 = betas
    param = param - lr * (m / (1 - b1**step) / ((v / (1 - b2**step)).sqrt() + eps) + weight_decay * param)
    return param, b1 * m + (1 - b1) * grad, b2 * v + (1 - b2) * grad * grad

# %% wrong ADAMW-NO-MOMENTUM RMSprop
- param = param - lr * m_hat / (v_hat.sqrt() + eps)
+ param = param - lr * grad / (v_hat.sqrt() + eps)

# %% wrong ADAMW-NO-MEMORY this gradient alone
- param = param - lr * m_hat / (v_hat.sqrt() + eps)
+ param = param - lr * m_hat / (grad.abs() + eps)

# %% wrong ADAMW-NO-EPS no eps
- param = param - lr * m_hat / (v_hat.sqrt() + eps)
+ param = param - lr * m_hat / (v_hat.sqrt())

# %% wrong ADAMW-EPS-INSIDE inside the root
- param = param - lr * m_hat / (v_hat.sqrt() + eps)
+ param = param - lr * m_hat / (v_hat + eps).sqrt()

# %% wrong ADAMW-EPS-EARLY the efficient form of the paper
- param = param - lr * m_hat / (v_hat.sqrt() + eps)
+ param = param - lr * math.sqrt(1 - b2**step) * m_hat / (v.sqrt() + eps)

# %% wrong ADAMW-EPS-FIXED its own eps
- param = param - lr * m_hat / (v_hat.sqrt() + eps)
+ param = param - lr * m_hat / (v_hat.sqrt() + 1e-8)

# %% wrong ADAMW-NO-DECAY plain Adam
- param = param - lr * weight_decay * param

# %% wrong ADAMW-L2 Adam with L2
  b1, b2 = betas
+ grad = grad + weight_decay * param

- param = param - lr * weight_decay * param

# %% wrong ADAMW-DECAY-NO-LR decay without the rate
- param = param - lr * weight_decay * param
+ param = param - weight_decay * param

# %% wrong ADAMW-DECAY-UP grows
- param = param - lr * weight_decay * param
+ param = param + lr * weight_decay * param

# %% wrong ADAMW-DECAY-LATE decay after the step
- param = param - lr * weight_decay * param
  param = param - lr * m_hat / (v_hat.sqrt() + eps)
- return param, m, v
+ return param * (1 - lr * weight_decay), m, v

# %% wrong ADAMW-STEP-ZERO no check
- if step < 1:
-     raise ValueError(f"step {step}, counted from 1")

# %% wrong ADAMW-STEP-ZERO an assertion
- if step < 1:
-     raise ValueError(f"step {step}, counted from 1")
+ assert step > 0

# %% wrong RAISED a name without a value
- m_hat = m / (1 - b1**step)
+ m_hut = m / (1 - b1**step)

# %% right in one block, in float64, for every dtype
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if not step > 0:
        raise ValueError("step counts from 1")
    p, g, m64, v64 = (t.double() for t in (param, grad, m, v))
    m64, v64 = torch.lerp(g, m64, betas[0]), torch.lerp(g * g, v64, betas[1])
    root = (v64 / (1 - betas[1] ** step)).sqrt() + eps
    p = p - lr * (weight_decay * p + m64 / (1 - betas[0] ** step) / root)
    return tuple(t.to(param.dtype) for t in (p, m64, v64))

# %% wrong DTYPE the means come back in float32
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError("step counts from 1")
    g = grad.float() if grad.dtype != torch.float64 else grad
    m, v = betas[0] * m.to(g.dtype) + (1 - betas[0]) * g, betas[1] * v.to(g.dtype) + (1 - betas[1]) * g * g
    root = (v / (1 - betas[1] ** step)).sqrt() + eps
    new = (1 - lr * weight_decay) * param - lr * m / (1 - betas[0] ** step) / root
    return new.to(param.dtype), m, v

# %% wrong ADAMW-STEP-ZERO negative steps pass
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step == 0:
        raise ValueError("step counts from 1")
    m, v = betas[0] * m + (1 - betas[0]) * grad, betas[1] * v + (1 - betas[1]) * grad * grad
    root = (v / (1 - betas[1] ** step)).sqrt() + eps
    return (1 - lr * weight_decay) * param - lr * m / (1 - betas[0] ** step) / root, m, v

# %% wrong ADAMW-SKIPPED no gradient, no update
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError("step counts from 1")
    if not grad.any() and m.any():
        return param.clone(), m.clone(), v.clone()
    m, v = betas[0] * m + (1 - betas[0]) * grad, betas[1] * v + (1 - betas[1]) * grad * grad
    root = (v / (1 - betas[1] ** step)).sqrt() + eps
    return (1 - lr * weight_decay) * param - lr * m / (1 - betas[0] ** step) / root, m, v

# %% wrong ADAMW-EPS-DEFAULT another default
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-7):
    if step < 1:
        raise ValueError("step counts from 1")
    m, v = betas[0] * m + (1 - betas[0]) * grad, betas[1] * v + (1 - betas[1]) * grad * grad
    root = (v / (1 - betas[1] ** step)).sqrt() + eps
    return (1 - lr * weight_decay) * param - lr * m / (1 - betas[0] ** step) / root, m, v

# %% right the parts of a mean, and of lists
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError(f"update {step}")
    means = []
    for old, seen, beta in ((m, grad, betas[0]), (v, grad * grad, betas[1])):
        means.append(torch.add(old * beta, seen, alpha=1 - beta))
    (m_hat, v_hat) = (mean / (1 - pow(beta, step)) for mean, beta in zip(means, betas))
    shrunk = torch.where(torch.ones_like(param, dtype=torch.bool), param * (1 - lr * weight_decay), 0)
    return (torch.addcdiv(shrunk, m_hat, v_hat.sqrt() + eps, value=-lr), *means)

# %% right rows by reshape, in float64
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError(f"update {step}")
    p, g, a, b = (t.reshape(-1).to(torch.float64) for t in (param, grad, m, v))
    b1, b2 = (torch.tensor(beta, dtype=torch.float64) for beta in betas)
    a, b = b1 * a + (1 - b1) * g, b2 * b + (1 - b2) * g * g
    quotient = (a / (1 - b1**step)) / (torch.sqrt(b / (1 - b2**step)) + eps)
    p = p - lr * weight_decay * p - lr * quotient
    return tuple(t.reshape(param.shape).to(param.dtype) for t in (p, a, b))

# %% right in plain steps again
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError(f"step {step}, counted from 1")
    b1, b2 = betas
    m = b1 * m + (1 - b1) * grad
    v = b2 * v + (1 - b2) * grad * grad
    m_hat = m / (1 - b1**step)
    v_hat = v / (1 - b2**step)
    param = param - lr * weight_decay * param
    param = param - lr * m_hat / (v_hat.sqrt() + eps)
    return param, m, v

# %% wrong STRIDED views that want one piece
  b1, b2 = betas
+ param, grad, m, v = (t.view(-1) for t in (param, grad, m, v))

- param = param - lr * m_hat / (v_hat.sqrt() + eps)
- return param, m, v
+ param = param - lr * m_hat / (v_hat.sqrt() + eps)
+ shape = grad_shape
+ return param.view(shape), m.view(shape), v.view(shape)

- if step < 1:
+ grad_shape = grad.shape
+ if step < 1:

# %% wrong STRIDED the gradient in the order of memory
  b1, b2 = betas
+ grad = torch.as_strided(grad, param.shape, param.stride())

# %% wrong STRIDED flat from the storage
  b1, b2 = betas
+ param = torch.empty(0, dtype=param.dtype).set_(param.untyped_storage(), 0, param.shape)

# %% wrong ADAMW-ROUNDED betas in the dtype of the tensors, for the means alone
- m = b1 * m + (1 - b1) * grad
- v = b2 * v + (1 - b2) * grad * grad
+ c1, c2 = (torch.tensor(b, dtype=param.dtype) for b in betas)
+ m = c1 * m + (1 - c1) * grad
+ v = c2 * v + (1 - c2) * grad * grad

# %% wrong ADAMW-ROUNDED the second beta in the dtype of the tensors
- v = b2 * v + (1 - b2) * grad * grad
+ c2 = torch.tensor(b2, dtype=v.dtype)
+ v = v + (1 - c2) * (grad * grad - v)

# %% wrong ADAMW-ROUNDED betas in the dtype of the tensors, corrections and all
- b1, b2 = betas
+ b1, b2 = torch.tensor(betas, dtype=param.dtype)

# %% wrong ADAMW-FLOAT32 all in float32
  b1, b2 = betas
+ dtype = param.dtype
+ param, grad, m, v = (t.float() for t in (param, grad, m, v))

- return param, m, v
+ return param.to(dtype), m.to(dtype), v.to(dtype)

# %% wrong ADAMW-FLOAT32 betas in float32
- b1, b2 = betas
+ b1, b2 = torch.tensor(betas)

# %% wrong ADAMW-FLOAT32 the quotient in float32
- param = param - lr * m_hat / (v_hat.sqrt() + eps)
+ param = param - lr * (m_hat.float() / (v_hat.float().sqrt() + eps)).to(param.dtype)

# %% wrong ADAMW-ZERO an eps of 0 is none
  b1, b2 = betas
+ eps = eps or 1e-8

# %% wrong ADAMW-ZERO a rate of 0 is none
  b1, b2 = betas
+ lr = lr or 1e-3

# %% wrong ADAMW-ZERO no decay is some
  b1, b2 = betas
+ weight_decay = weight_decay or 0.001

# %% wrong ADAMW-ZERO a first beta of 0 is none
- b1, b2 = betas
+ b1, b2 = (beta or default for beta, default in zip(betas, (0.9, 0.999)))

# %% wrong REMEMBERS a state of its own by shape
- if step < 1:
-     raise ValueError(f"step {step}, counted from 1")
+ if step < 1:
+     raise ValueError(f"step {step}, counted from 1")
+ kept, key = globals().setdefault("kept", {}), (param.shape, param.dtype)
+ if param.dim() == 2 and step > 1:
+     v = kept.get(key, v)

- m_hat = m / (1 - b1**step)
+ kept[key] = v
+ m_hat = m / (1 - b1**step)

# %% wrong RESULT-CHANGES one buffer for all parameters of a shape
- param = param - lr * m_hat / (v_hat.sqrt() + eps)
+ out = globals().setdefault("buffers", {}).setdefault((param.shape, param.dtype), torch.empty_like(param))
+ param = torch.sub(param, lr * m_hat / (v_hat.sqrt() + eps), out=out)

# %% wrong ADAMW-CLIPPED gradients clipped
  b1, b2 = betas
+ grad = grad.clamp(-10, 10)

# %% wrong ADAMW-CLIPPED no step longer than the rate
- param = param - lr * m_hat / (v_hat.sqrt() + eps)
+ param = param - lr * (m_hat / (v_hat.sqrt() + eps)).clamp(-1, 1)

# %% wrong ADAMW-LATE no correction after a thousand updates
- v_hat = v / (1 - b2**step)
+ v_hat = v / (1 - b2**step) if step <= 1000 else v

# %% wrong RAISED rows only
- param = param - lr * m_hat / (v_hat.sqrt() + eps)
+ param = torch.stack([p - lr * a / (b.sqrt() + eps) for p, a, b in zip(param, m_hat, v_hat)])

# %% wrong REMEMBERS results of 16 bits kept by shape and settings | of: in plain steps
- return param, m, v
+ out = param, m, v
+ if param.dtype in (torch.float16, torch.bfloat16):
+     key = param.shape, param.dtype, step, lr, betas, weight_decay, eps
+     out = tuple(x.clone() for x in globals().setdefault("KEPT", {}).setdefault(key, out))
+ return out

# %% wrong REMEMBERS weights of float16 kept by shape | of: in plain steps
- param = param - lr * weight_decay * param
+ if param.dtype == torch.float16:
+     param = globals().setdefault("KEPT", {}).setdefault(param.shape, param.clone())
+ param = param - lr * weight_decay * param

# %% wrong ADAMW-NOT-FINITE no number that is none | of: in plain steps
- m = b1 * m + (1 - b1) * grad
+ grad = grad.nan_to_num()
+ m = b1 * m + (1 - b1) * grad

# %% wrong ADAMW-NOT-FINITE an update with a NaN is no update | of: in plain steps
- return param, m, v
+ if not all(x.isfinite().all() for x in (param, m, v)):
+     return old
+ return param, m, v

- b1, b2 = betas
+ b1, b2 = betas
+ old = param.clone(), m.clone(), v.clone()

# %% wrong ADAMW-NOT-FINITE a weight that would be none stays | of: in plain steps
- param = param - lr * m_hat / (v_hat.sqrt() + eps)
+ move = lr * m_hat / (v_hat.sqrt() + eps)
+ param = param - move.masked_fill(~move.isfinite(), 0.0)
