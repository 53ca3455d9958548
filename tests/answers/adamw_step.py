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

# %% wrong STUB untouched
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    raise NotImplementedError("your code here")

# %% wrong NONE no return
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
    p = param, m, v

# %% wrong ADAMW-TRIPLE the weights alone
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
    return param

# %% wrong ADAMW-TRIPLE a pair
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
    return param, (m, v)

# %% wrong ADAMW-ORDER state first
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
    return m, v, param

# %% wrong ADAMW-ORDER v before m
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
    return param, v, m

# %% wrong INPLACE param in place
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError(f"step {step}, counted from 1")
    b1, b2 = betas
    m = b1 * m + (1 - b1) * grad
    v = b2 * v + (1 - b2) * grad * grad
    m_hat = m / (1 - b1**step)
    v_hat = v / (1 - b2**step)
    param.sub_(lr * weight_decay * param)
    param = param - lr * m_hat / (v_hat.sqrt() + eps)
    return param, m, v

# %% wrong INPLACE m in place
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError(f"step {step}, counted from 1")
    b1, b2 = betas
    m.mul_(b1).add_(grad, alpha=1 - b1)
    v = b2 * v + (1 - b2) * grad * grad
    m_hat = m / (1 - b1**step)
    v_hat = v / (1 - b2**step)
    param = param - lr * weight_decay * param
    param = param - lr * m_hat / (v_hat.sqrt() + eps)
    return param, m, v

# %% wrong DTYPE always float32
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
    return param.float(), m, v

# %% wrong ADAMW-BETAS betas exchanged
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError(f"step {step}, counted from 1")
    b2, b1 = betas
    m = b1 * m + (1 - b1) * grad
    v = b2 * v + (1 - b2) * grad * grad
    m_hat = m / (1 - b1**step)
    v_hat = v / (1 - b2**step)
    param = param - lr * weight_decay * param
    param = param - lr * m_hat / (v_hat.sqrt() + eps)
    return param, m, v

# %% wrong ADAMW-BETAS one beta for both
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError(f"step {step}, counted from 1")
    b1, b2 = betas
    m = b1 * m + (1 - b1) * grad
    v = b1 * v + (1 - b1) * grad * grad
    m_hat = m / (1 - b1**step)
    v_hat = v / (1 - b2**step)
    param = param - lr * weight_decay * param
    param = param - lr * m_hat / (v_hat.sqrt() + eps)
    return param, m, v

# %% wrong ADAMW-MIRRORED keeps a tenth
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError(f"step {step}, counted from 1")
    b1, b2 = betas
    m = (1 - b1) * m + b1 * grad
    v = b2 * v + (1 - b2) * grad * grad
    m_hat = m / (1 - b1**step)
    v_hat = v / (1 - b2**step)
    param = param - lr * weight_decay * param
    param = param - lr * m_hat / (v_hat.sqrt() + eps)
    return param, m, v

# %% wrong ADAMW-SUM heavy ball momentum
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError(f"step {step}, counted from 1")
    b1, b2 = betas
    m = b1 * m + grad
    v = b2 * v + (1 - b2) * grad * grad
    m_hat = m / (1 - b1**step)
    v_hat = v / (1 - b2**step)
    param = param - lr * weight_decay * param
    param = param - lr * m_hat / (v_hat.sqrt() + eps)
    return param, m, v

# %% wrong ADAMW-SUM sum of squares
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError(f"step {step}, counted from 1")
    b1, b2 = betas
    m = b1 * m + (1 - b1) * grad
    v = b2 * v + grad * grad
    m_hat = m / (1 - b1**step)
    v_hat = v / (1 - b2**step)
    param = param - lr * weight_decay * param
    param = param - lr * m_hat / (v_hat.sqrt() + eps)
    return param, m, v

# %% wrong ADAMW-NOT-SQUARED v of gradients
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError(f"step {step}, counted from 1")
    b1, b2 = betas
    m = b1 * m + (1 - b1) * grad
    v = b2 * v + (1 - b2) * grad
    m_hat = m / (1 - b1**step)
    v_hat = v / (1 - b2**step)
    param = param - lr * weight_decay * param
    param = param - lr * m_hat / (v_hat.sqrt() + eps)
    return param, m, v

# %% wrong ADAMW-NOT-SQUARED v of sizes
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError(f"step {step}, counted from 1")
    b1, b2 = betas
    m = b1 * m + (1 - b1) * grad
    v = b2 * v + (1 - b2) * grad.abs()
    m_hat = m / (1 - b1**step)
    v_hat = v / (1 - b2**step)
    param = param - lr * weight_decay * param
    param = param - lr * m_hat / (v_hat.sqrt() + eps)
    return param, m, v

# %% wrong ADAMW-SQUARE-OF-MEAN v of m squared
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError(f"step {step}, counted from 1")
    b1, b2 = betas
    m = b1 * m + (1 - b1) * grad
    v = b2 * v + (1 - b2) * m * m
    m_hat = m / (1 - b1**step)
    v_hat = v / (1 - b2**step)
    param = param - lr * weight_decay * param
    param = param - lr * m_hat / (v_hat.sqrt() + eps)
    return param, m, v

# %% wrong ADAMW-STATE-OLD returns the old state
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError(f"step {step}, counted from 1")
    b1, b2 = betas
    old = m, v
    m = b1 * m + (1 - b1) * grad
    v = b2 * v + (1 - b2) * grad * grad
    m_hat = m / (1 - b1**step)
    v_hat = v / (1 - b2**step)
    param = param - lr * weight_decay * param
    param = param - lr * m_hat / (v_hat.sqrt() + eps)
    return param, *old

# %% wrong ADAMW-STATE-CORRECTED returns corrected means
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
    return param, m_hat, v_hat

# %% wrong ADAMW-STATE-CORRECTED corrects m under its own name
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError(f"step {step}, counted from 1")
    b1, b2 = betas
    m = b1 * m + (1 - b1) * grad
    v = b2 * v + (1 - b2) * grad * grad
    m = m / (1 - b1**step)
    v_hat = v / (1 - b2**step)
    param = param - lr * weight_decay * param
    param = param - lr * m / (v_hat.sqrt() + eps)
    return param, m, v

# %% wrong ADAMW-NO-CORRECTION the toy of the notes
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError(f"step {step}, counted from 1")
    b1, b2 = betas
    m = b1 * m + (1 - b1) * grad
    v = b2 * v + (1 - b2) * grad * grad
    m_hat, v_hat = m, v
    param = param - lr * weight_decay * param
    param = param - lr * m_hat / (v_hat.sqrt() + eps)
    return param, m, v

# %% wrong ADAMW-ONE-CORRECTION v not corrected
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError(f"step {step}, counted from 1")
    b1, b2 = betas
    m = b1 * m + (1 - b1) * grad
    v = b2 * v + (1 - b2) * grad * grad
    m_hat = m / (1 - b1**step)
    v_hat = v
    param = param - lr * weight_decay * param
    param = param - lr * m_hat / (v_hat.sqrt() + eps)
    return param, m, v

# %% wrong ADAMW-ONE-CORRECTION m not corrected
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError(f"step {step}, counted from 1")
    b1, b2 = betas
    m = b1 * m + (1 - b1) * grad
    v = b2 * v + (1 - b2) * grad * grad
    m_hat = m
    v_hat = v / (1 - b2**step)
    param = param - lr * weight_decay * param
    param = param - lr * m_hat / (v_hat.sqrt() + eps)
    return param, m, v

# %% wrong ADAMW-WRONG-CORRECTION the root corrected
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError(f"step {step}, counted from 1")
    b1, b2 = betas
    m = b1 * m + (1 - b1) * grad
    v = b2 * v + (1 - b2) * grad * grad
    m_hat = m / (1 - b1**step)
    v_hat = v.sqrt() / (1 - b2**step)
    param = param - lr * weight_decay * param
    param = param - lr * m_hat / (v_hat + eps)
    return param, m, v

# %% wrong ADAMW-WRONG-CORRECTION v corrected with beta1
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError(f"step {step}, counted from 1")
    b1, b2 = betas
    m = b1 * m + (1 - b1) * grad
    v = b2 * v + (1 - b2) * grad * grad
    m_hat = m / (1 - b1**step)
    v_hat = v / (1 - b1**step)
    param = param - lr * weight_decay * param
    param = param - lr * m_hat / (v_hat.sqrt() + eps)
    return param, m, v

# %% wrong ADAMW-WRONG-CORRECTION multiplied
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError(f"step {step}, counted from 1")
    b1, b2 = betas
    m = b1 * m + (1 - b1) * grad
    v = b2 * v + (1 - b2) * grad * grad
    m_hat = m * (1 - b1**step)
    v_hat = v * (1 - b2**step)
    param = param - lr * weight_decay * param
    param = param - lr * m_hat / (v_hat.sqrt() + eps)
    return param, m, v

# %% wrong ADAMW-STEP-OFF counts from 0
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError(f"step {step}, counted from 1")
    b1, b2 = betas
    m = b1 * m + (1 - b1) * grad
    v = b2 * v + (1 - b2) * grad * grad
    m_hat = m / (1 - b1 ** (step - 1))
    v_hat = v / (1 - b2 ** (step - 1))
    param = param - lr * weight_decay * param
    param = param - lr * m_hat / (v_hat.sqrt() + eps)
    return param, m, v

# %% wrong ADAMW-STEP-OFF one too many
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError(f"step {step}, counted from 1")
    b1, b2 = betas
    m = b1 * m + (1 - b1) * grad
    v = b2 * v + (1 - b2) * grad * grad
    m_hat = m / (1 - b1 ** (step + 1))
    v_hat = v / (1 - b2 ** (step + 1))
    param = param - lr * weight_decay * param
    param = param - lr * m_hat / (v_hat.sqrt() + eps)
    return param, m, v

# %% wrong ADAMW-FIXED-STEP no power
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError(f"step {step}, counted from 1")
    b1, b2 = betas
    m = b1 * m + (1 - b1) * grad
    v = b2 * v + (1 - b2) * grad * grad
    m_hat = m / (1 - b1)
    v_hat = v / (1 - b2)
    param = param - lr * weight_decay * param
    param = param - lr * m_hat / (v_hat.sqrt() + eps)
    return param, m, v

# %% wrong ADAMW-UPHILL plus
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError(f"step {step}, counted from 1")
    b1, b2 = betas
    m = b1 * m + (1 - b1) * grad
    v = b2 * v + (1 - b2) * grad * grad
    m_hat = m / (1 - b1**step)
    v_hat = v / (1 - b2**step)
    param = param - lr * weight_decay * param
    param = param + lr * m_hat / (v_hat.sqrt() + eps)
    return param, m, v

# %% wrong ADAMW-SGD momentum alone
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError(f"step {step}, counted from 1")
    b1, b2 = betas
    m = b1 * m + (1 - b1) * grad
    v = b2 * v + (1 - b2) * grad * grad
    m_hat = m / (1 - b1**step)
    v_hat = v / (1 - b2**step)
    param = param - lr * weight_decay * param
    param = param - lr * m_hat
    return param, m, v

# %% wrong ADAMW-NO-ROOT divides by v
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError(f"step {step}, counted from 1")
    b1, b2 = betas
    m = b1 * m + (1 - b1) * grad
    v = b2 * v + (1 - b2) * grad * grad
    m_hat = m / (1 - b1**step)
    v_hat = v / (1 - b2**step)
    param = param - lr * weight_decay * param
    param = param - lr * m_hat / (v_hat + eps)
    return param, m, v

# %% wrong ADAMW-NO-LR no rate
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError(f"step {step}, counted from 1")
    b1, b2 = betas
    m = b1 * m + (1 - b1) * grad
    v = b2 * v + (1 - b2) * grad * grad
    m_hat = m / (1 - b1**step)
    v_hat = v / (1 - b2**step)
    param = param - lr * weight_decay * param
    param = param - m_hat / (v_hat.sqrt() + eps)
    return param, m, v

# %% wrong ADAMW-OLD-STATE steps before it looks
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError(f"step {step}, counted from 1")
    b1, b2 = betas
    param = param - lr * (m / (1 - b1**step) / ((v / (1 - b2**step)).sqrt() + eps) + weight_decay * param)
    return param, b1 * m + (1 - b1) * grad, b2 * v + (1 - b2) * grad * grad

# %% wrong ADAMW-NO-MOMENTUM RMSprop
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError(f"step {step}, counted from 1")
    b1, b2 = betas
    m = b1 * m + (1 - b1) * grad
    v = b2 * v + (1 - b2) * grad * grad
    m_hat = m / (1 - b1**step)
    v_hat = v / (1 - b2**step)
    param = param - lr * weight_decay * param
    param = param - lr * grad / (v_hat.sqrt() + eps)
    return param, m, v

# %% wrong ADAMW-NO-MEMORY this gradient alone
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError(f"step {step}, counted from 1")
    b1, b2 = betas
    m = b1 * m + (1 - b1) * grad
    v = b2 * v + (1 - b2) * grad * grad
    m_hat = m / (1 - b1**step)
    v_hat = v / (1 - b2**step)
    param = param - lr * weight_decay * param
    param = param - lr * m_hat / (grad.abs() + eps)
    return param, m, v

# %% wrong ADAMW-NO-EPS no eps
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError(f"step {step}, counted from 1")
    b1, b2 = betas
    m = b1 * m + (1 - b1) * grad
    v = b2 * v + (1 - b2) * grad * grad
    m_hat = m / (1 - b1**step)
    v_hat = v / (1 - b2**step)
    param = param - lr * weight_decay * param
    param = param - lr * m_hat / (v_hat.sqrt())
    return param, m, v

# %% wrong ADAMW-EPS-INSIDE inside the root
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError(f"step {step}, counted from 1")
    b1, b2 = betas
    m = b1 * m + (1 - b1) * grad
    v = b2 * v + (1 - b2) * grad * grad
    m_hat = m / (1 - b1**step)
    v_hat = v / (1 - b2**step)
    param = param - lr * weight_decay * param
    param = param - lr * m_hat / (v_hat + eps).sqrt()
    return param, m, v

# %% wrong ADAMW-EPS-EARLY the efficient form of the paper
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError(f"step {step}, counted from 1")
    b1, b2 = betas
    m = b1 * m + (1 - b1) * grad
    v = b2 * v + (1 - b2) * grad * grad
    m_hat = m / (1 - b1**step)
    v_hat = v / (1 - b2**step)
    param = param - lr * weight_decay * param
    param = param - lr * math.sqrt(1 - b2**step) * m_hat / (v.sqrt() + eps)
    return param, m, v

# %% wrong ADAMW-EPS-FIXED its own eps
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError(f"step {step}, counted from 1")
    b1, b2 = betas
    m = b1 * m + (1 - b1) * grad
    v = b2 * v + (1 - b2) * grad * grad
    m_hat = m / (1 - b1**step)
    v_hat = v / (1 - b2**step)
    param = param - lr * weight_decay * param
    param = param - lr * m_hat / (v_hat.sqrt() + 1e-8)
    return param, m, v

# %% wrong ADAMW-NO-DECAY plain Adam
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError(f"step {step}, counted from 1")
    b1, b2 = betas
    m = b1 * m + (1 - b1) * grad
    v = b2 * v + (1 - b2) * grad * grad
    m_hat = m / (1 - b1**step)
    v_hat = v / (1 - b2**step)
    param = param - lr * m_hat / (v_hat.sqrt() + eps)
    return param, m, v

# %% wrong ADAMW-L2 Adam with L2
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError(f"step {step}, counted from 1")
    b1, b2 = betas
    grad = grad + weight_decay * param
    m = b1 * m + (1 - b1) * grad
    v = b2 * v + (1 - b2) * grad * grad
    m_hat = m / (1 - b1**step)
    v_hat = v / (1 - b2**step)
    param = param - lr * m_hat / (v_hat.sqrt() + eps)
    return param, m, v

# %% wrong ADAMW-DECAY-NO-LR decay without the rate
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError(f"step {step}, counted from 1")
    b1, b2 = betas
    m = b1 * m + (1 - b1) * grad
    v = b2 * v + (1 - b2) * grad * grad
    m_hat = m / (1 - b1**step)
    v_hat = v / (1 - b2**step)
    param = param - weight_decay * param
    param = param - lr * m_hat / (v_hat.sqrt() + eps)
    return param, m, v

# %% wrong ADAMW-DECAY-UP grows
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError(f"step {step}, counted from 1")
    b1, b2 = betas
    m = b1 * m + (1 - b1) * grad
    v = b2 * v + (1 - b2) * grad * grad
    m_hat = m / (1 - b1**step)
    v_hat = v / (1 - b2**step)
    param = param + lr * weight_decay * param
    param = param - lr * m_hat / (v_hat.sqrt() + eps)
    return param, m, v

# %% wrong ADAMW-DECAY-LATE decay after the step
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError(f"step {step}, counted from 1")
    b1, b2 = betas
    m = b1 * m + (1 - b1) * grad
    v = b2 * v + (1 - b2) * grad * grad
    m_hat = m / (1 - b1**step)
    v_hat = v / (1 - b2**step)
    param = param - lr * m_hat / (v_hat.sqrt() + eps)
    return param * (1 - lr * weight_decay), m, v

# %% wrong ADAMW-STEP-ZERO no check
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    b1, b2 = betas
    m = b1 * m + (1 - b1) * grad
    v = b2 * v + (1 - b2) * grad * grad
    m_hat = m / (1 - b1**step)
    v_hat = v / (1 - b2**step)
    param = param - lr * weight_decay * param
    param = param - lr * m_hat / (v_hat.sqrt() + eps)
    return param, m, v

# %% wrong ADAMW-STEP-ZERO an assertion
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    assert step > 0
    b1, b2 = betas
    m = b1 * m + (1 - b1) * grad
    v = b2 * v + (1 - b2) * grad * grad
    m_hat = m / (1 - b1**step)
    v_hat = v / (1 - b2**step)
    param = param - lr * weight_decay * param
    param = param - lr * m_hat / (v_hat.sqrt() + eps)
    return param, m, v

# %% wrong RAISED a name without a value
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError(f"step {step}, counted from 1")
    b1, b2 = betas
    m = b1 * m + (1 - b1) * grad
    v = b2 * v + (1 - b2) * grad * grad
    m_hut = m / (1 - b1**step)
    v_hat = v / (1 - b2**step)
    param = param - lr * weight_decay * param
    param = param - lr * m_hat / (v_hat.sqrt() + eps)
    return param, m, v
