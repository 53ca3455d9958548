# Answers to the exercise muon-step.

# %% right as torch writes it, rounds in bfloat16
@torch.no_grad()
def muon_step(param, grad, m, *, lr, weight_decay, beta=0.95, coefficients=(3.4445, -4.7750, 2.0315), rounds=5, eps=1e-7):
    if param.ndim != 2:
        raise ValueError("a matrix, please")
    param, m = param.clone(), m.clone()
    m.lerp_(grad, 1 - beta)
    x = grad.lerp(m, beta).bfloat16()
    if param.size(0) > param.size(1):
        x = x.T
    x = x.div(x.norm().clamp(min=eps))
    a, b, c = coefficients
    for _ in range(rounds):
        gram = x @ x.T
        update = torch.addmm(gram, gram, gram, beta=b, alpha=c)
        x = torch.addmm(x, update, x, beta=a)
    if param.size(0) > param.size(1):
        x = x.T
    param.mul_(1 - lr * weight_decay)
    param.add_(x.to(param.dtype), alpha=-0.2 * math.sqrt(max(param.shape)) * lr)
    return param, m

# %% right in float64, from the shorter side
def muon_step(param, grad, m, *, lr, weight_decay, beta=0.95, coefficients=(3.4445, -4.7750, 2.0315), rounds=5, eps=1e-7):
    if len(param.shape) != 2:
        raise ValueError(f"{tuple(param.shape)} is no matrix")
    dtype = param.dtype
    new_m = m.double() * beta + grad.double() * (1 - beta)
    x = new_m * beta + grad.double() * (1 - beta)
    x = x / max(x.square().sum().sqrt().item(), eps)
    a, b, c = coefficients
    rows, columns = param.shape
    for _ in range(rounds):
        if rows > columns:
            inner = x.T @ x
            x = a * x + b * x @ inner + c * x @ inner @ inner
        else:
            outer = x @ x.T
            x = a * x + b * outer @ x + c * outer @ (outer @ x)
    step = 0.2 * max(rows, columns) ** 0.5 * lr * x
    return (param.double() * (1 - lr * weight_decay) - step).to(dtype), new_m.to(dtype)

# %% right a function of its own inside, and torch's maximum
def muon_step(param, grad, m, *, lr, weight_decay, beta=0.95, coefficients=(3.4445, -4.7750, 2.0315), rounds=5, eps=1e-7):
    def turn(x):
        norm = torch.linalg.matrix_norm(x)
        x = x / torch.maximum(norm, torch.full_like(norm, eps))
        for _ in range(rounds):
            gram = torch.mm(x, x.mT)
            x = coefficients[0] * x + coefficients[1] * (gram @ x) + coefficients[2] * (gram @ (gram @ x))
        return x

    if param.dim() != 2:
        raise ValueError("Muon takes matrices")
    m = torch.lerp(grad, m, beta)
    direction = torch.lerp(grad, m, beta)
    x = turn(direction.mT).mT if len(param) > param.shape[1] else turn(direction)
    param = param - lr * weight_decay * param
    return param - lr * 0.2 * math.sqrt(max(param.size())) * x, m

# %% right in plain steps
def muon_step(param, grad, m, *, lr, weight_decay, beta=0.95, coefficients=(3.4445, -4.7750, 2.0315), rounds=5, eps=1e-7):
    if param.dim() != 2:
        raise ValueError("not a matrix")
    m = beta * m + (1 - beta) * grad
    direction = beta * m + (1 - beta) * grad
    x = direction / direction.norm().clamp(min=eps)
    a, b, c = coefficients
    tall = x.size(0) > x.size(1)
    x = x.T if tall else x
    for _ in range(rounds):
        gram = x @ x.T
        x = a * x + b * gram @ x + c * gram @ gram @ x
    x = x.T if tall else x
    old = (1 - lr * weight_decay) * param
    length = 0.2 * math.sqrt(max(param.shape)) * lr
    return old - length * x, m

# %% wrong STUB untouched
def muon_step(param, grad, m, *, lr, weight_decay, beta=0.95, coefficients=(3.4445, -4.7750, 2.0315), rounds=5, eps=1e-7):
    raise NotImplementedError("your code here")

# %% wrong NONE no return
- return old - length * x, m
+ new = old - length * x, m

# %% wrong MUON-PAIR the matrix alone
- return old - length * x, m
+ return old - length * x

# %% wrong MUON-PAIR a third result
- return old - length * x, m
+ return old - length * x, m, x

# %% wrong MUON-ORDER state first
- return old - length * x, m
+ return m, old - length * x

# %% wrong INPLACE m in place
- m = beta * m + (1 - beta) * grad
+ m.mul_(beta).add_(grad, alpha=1 - beta)

# %% wrong INPLACE param in place
- old = (1 - lr * weight_decay) * param
+ old = param.mul_(0.999)

# %% wrong DTYPE results in float32
- return old - length * x, m
+ return (old - length * x).float(), m.float()

# %% wrong SHAPE a tall matrix stays on its side
- x = direction / direction.norm().clamp(min=eps)
+ param, m, direction = (t.T if t.size(0) > t.size(1) else t for t in (param, m, direction))
+ x = direction / direction.norm().clamp(min=eps)

# %% wrong MUON-SUM heavy ball, as torch's page has it
- m = beta * m + (1 - beta) * grad
- direction = beta * m + (1 - beta) * grad
+ m = beta * m + grad
+ direction = grad + beta * m

# %% wrong MUON-MIRRORED keeps a twentieth
- m = beta * m + (1 - beta) * grad
- direction = beta * m + (1 - beta) * grad
+ m = (1 - beta) * m + beta * grad
+ direction = (1 - beta) * m + beta * grad

# %% wrong MUON-STATE-OLD returns the old state
- m = beta * m + (1 - beta) * grad
- direction = beta * m + (1 - beta) * grad
+ new = beta * m + (1 - beta) * grad
+ direction = beta * new + (1 - beta) * grad

# %% wrong MUON-STATE-DIRECTION returns the direction
- direction = beta * m + (1 - beta) * grad
+ direction = m = beta * m + (1 - beta) * grad

# %% wrong MUON-STATE-TURNED returns the step
- return old - length * x, m
+ return old - length * x, x

# %% wrong MUON-BETA a beta of its own
- if param.dim() != 2:
+ beta = 0.95
+ if param.dim() != 2:

# %% wrong MUON-NO-NESTEROV the mean once
- direction = beta * m + (1 - beta) * grad
+ direction = m

# %% wrong MUON-NO-MOMENTUM the gradient alone
- direction = beta * m + (1 - beta) * grad
+ direction = grad

# %% wrong MUON-NOT-A-MEAN the sum's Nesterov on a mean
- direction = beta * m + (1 - beta) * grad
+ direction = grad + beta * m

# %% wrong MUON-NOT-TURNED momentum, of norm 1
- x = a * x + b * gram @ x + c * gram @ gram @ x
+ y = a * x + b * gram @ x + c * gram @ gram @ x

# %% wrong MUON-RUNAWAY straight into the rounds
- x = direction / direction.norm().clamp(min=eps)
+ x = direction

# %% wrong MUON-OTHER-NORM the largest singular value
- x = direction / direction.norm().clamp(min=eps)
+ x = direction / torch.linalg.matrix_norm(direction.float(), 2).to(param.dtype).clamp(min=eps)

# %% wrong MUON-EXACT an SVD
- for _ in range(rounds):
-     gram = x @ x.T
-     x = a * x + b * gram @ x + c * gram @ gram @ x
+ left, sizes, right = torch.linalg.svd(x.float(), full_matrices=False)
+ x = ((left * (sizes > 1e-6)) @ right).to(param.dtype)

# %% wrong MUON-UPHILL plus
- return old - length * x, m
+ return old + length * x, m

# %% wrong MUON-LENGTH lr alone
- length = 0.2 * math.sqrt(max(param.shape)) * lr
+ length = lr

# %% wrong MUON-LENGTH the first Muon's
- length = 0.2 * math.sqrt(max(param.shape)) * lr
+ length = math.sqrt(max(1, param.size(0) / param.size(1))) * lr

# %% wrong MUON-LENGTH the shorter side
- length = 0.2 * math.sqrt(max(param.shape)) * lr
+ length = 0.2 * math.sqrt(min(param.shape)) * lr

# %% wrong MUON-LENGTH no root
- length = 0.2 * math.sqrt(max(param.shape)) * lr
+ length = 0.2 * max(param.shape) * lr

# %% wrong MUON-LENGTH a rate of its own
- length = 0.2 * math.sqrt(max(param.shape)) * lr
+ length = 0.2 * math.sqrt(max(param.shape)) * 0.01

# %% wrong MUON-LENGTH without lr
- length = 0.2 * math.sqrt(max(param.shape)) * lr
+ length = 0.2 * math.sqrt(max(param.shape))

# %% wrong MUON-LENGTH rows for the longer side
- length = 0.2 * math.sqrt(max(param.shape)) * lr
+ length = 0.2 * math.sqrt(param.size(0)) * lr

# %% wrong MUON-NO-DECAY nothing decays
- old = (1 - lr * weight_decay) * param
+ old = param

# %% wrong MUON-L2 decay in the gradient
- m = beta * m + (1 - beta) * grad
+ grad = grad + weight_decay * param
+ m = beta * m + (1 - beta) * grad

- old = (1 - lr * weight_decay) * param
+ old = param

# %% wrong MUON-DECAY-NO-LR decay without the rate
- old = (1 - lr * weight_decay) * param
+ old = (1 - weight_decay) * param

# %% wrong MUON-DECAY-LENGTH decay as long as the step
- old = (1 - lr * weight_decay) * param
- length = 0.2 * math.sqrt(max(param.shape)) * lr
+ length = 0.2 * math.sqrt(max(param.shape)) * lr
+ old = (1 - length * weight_decay) * param

# %% wrong MUON-DECAY-UP grows
- old = (1 - lr * weight_decay) * param
+ old = (1 + lr * weight_decay) * param

# %% wrong MUON-DECAY-LATE decay after the step
- return old - length * x, m
+ return (param - length * x) * (1 - lr * weight_decay), m

# %% wrong MUON-NO-EPS no eps
- x = direction / direction.norm().clamp(min=eps)
+ x = direction / direction.norm()

# %% wrong MUON-EPS-FIXED its own eps
- x = direction / direction.norm().clamp(min=eps)
+ x = direction / direction.norm().clamp(min=1e-7)

# %% wrong MUON-SKIPPED no gradient, no update
- if param.dim() != 2:
+ if param.dim() == 2 and not grad.any():
+     return param.clone(), m.clone()
+ if param.dim() != 2:

# %% wrong MUON-ROUNDS one round more
- for _ in range(rounds):
+ for _ in range(rounds + 1):

# %% wrong MUON-ROUNDS one round less
- for _ in range(rounds):
+ for _ in range(1, rounds):

# %% wrong MUON-FIXED-ROUNDS five
- for _ in range(rounds):
+ for _ in range(5):

# %% wrong MUON-COEFFICIENTS numbers by hand
- a, b, c = coefficients
+ a, b, c = 3.4445, -4.7750, 2.0315

# %% wrong MUON-UNEQUAL powers of each number
- gram = x @ x.T
- x = a * x + b * gram @ x + c * gram @ gram @ x
+ x = a * x + b * x**3 + c * x**5

# %% wrong MUON-NO-MATRIX a gain is turned too
- if param.dim() != 2:
-     raise ValueError("not a matrix")

# %% wrong MUON-NO-MATRIX stacks pass
- if param.dim() != 2:
+ if param.dim() < 2:

# %% wrong MUON-NO-MATRIX an assertion
- if param.dim() != 2:
-     raise ValueError("not a matrix")
+ assert param.dim() == 2

# %% wrong MUON-UNEQUAL c times one product
- x = a * x + b * gram @ x + c * gram @ gram @ x
+ x = a * x + b * gram @ x + c * gram @ x

# %% wrong MUON-RUNAWAY b and c exchanged
- x = a * x + b * gram @ x + c * gram @ gram @ x
+ x = a * x + c * gram @ x + b * gram @ gram @ x

# %% wrong STRIDED a guard that counts on memory in order
- if param.dim() != 2:
+ if param.dim() == 2 and not torch.isfinite(grad.view(-1)).all():
+     raise RuntimeError("gradients are not finite")
+ if param.dim() != 2:

# %% wrong MUON-RUNAWAY every row by its own length
- x = direction / direction.norm().clamp(min=eps)
+ x = direction / direction.norm(dim=1, keepdim=True).clamp(min=eps)

# %% wrong MUON-SKIPPED a matrix without a gradient stays
- return old - length * x, m
+ return old - length * x * bool(grad.any()), m

# %% wrong MUON-LONG-SIDE a tall matrix stays as it is | of: in plain steps
- tall = x.size(0) > x.size(1)
+ tall = False

# %% wrong MUON-LONG-SIDE always from the right | of: in plain steps
- tall = x.size(0) > x.size(1)
+ tall = True

# %% wrong MUON-EPS-ADDED eps added to the norm | of: in plain steps
- x = direction / direction.norm().clamp(min=eps)
+ x = direction / (direction.norm() + eps)

# %% wrong MUON-EPS-ADDED eps inside the root | of: in plain steps
- x = direction / direction.norm().clamp(min=eps)
+ x = direction / (direction.square().sum() + eps).sqrt()

# %% wrong MUON-EPS-ADDED the squared norm from below | of: in plain steps
- x = direction / direction.norm().clamp(min=eps)
+ x = direction / direction.square().sum().clamp(min=eps).sqrt()

# %% wrong MUON-EPS-DEFAULT another default | of: in plain steps
- def muon_step(param, grad, m, *, lr, weight_decay, beta=0.95, coefficients=(3.4445, -4.7750, 2.0315), rounds=5, eps=1e-7):
+ def muon_step(param, grad, m, *, lr, weight_decay, beta=0.95, coefficients=(3.4445, -4.7750, 2.0315), rounds=5, eps=1e-8):

# %% wrong MUON-ZERO an eps of 0 is none | of: in plain steps
- if param.dim() != 2:
+ eps = eps or 1e-7
+ if param.dim() != 2:

# %% wrong MUON-ZERO a beta of 0 is none | of: in plain steps
- if param.dim() != 2:
+ beta = beta or 0.95
+ if param.dim() != 2:

# %% wrong MUON-ZERO a rate of 0 is none | of: in plain steps
- if param.dim() != 2:
+ lr = lr or 0.02
+ if param.dim() != 2:

# %% wrong OTHER no decay is some | of: in plain steps
- if param.dim() != 2:
+ weight_decay = weight_decay or 0.001
+ if param.dim() != 2:

# %% wrong MUON-FLOAT32 the mean in float32 | of: in plain steps
- m = beta * m + (1 - beta) * grad
+ m = (beta * m.float() + (1 - beta) * grad.float()).to(param.dtype)

# %% wrong MUON-FLOAT32 the decay in float32 | of: in plain steps
- old = (1 - lr * weight_decay) * param
+ old = ((1 - lr * weight_decay) * param.float()).to(param.dtype)

# %% wrong MUON-ROUNDED beta in the dtype of the matrices | of: in plain steps
- m = beta * m + (1 - beta) * grad
- direction = beta * m + (1 - beta) * grad
+ beta = torch.tensor(beta, dtype=param.dtype)
+ m = beta * m + (1 - beta) * grad
+ direction = beta * m + (1 - beta) * grad

# %% wrong STRIDED a view of the matrix | of: in plain steps
- old = (1 - lr * weight_decay) * param
+ old = (1 - lr * weight_decay) * param.view(-1).view(param.shape)

# %% wrong STRIDED m in the order of memory | of: in plain steps
- m = beta * m + (1 - beta) * grad
+ m = beta * torch.as_strided(m, grad.shape, (grad.size(1), 1)) + (1 - beta) * grad

# %% wrong RESULT-CHANGES one buffer for all matrices of a shape | of: in plain steps
- return old - length * x, m
+ out = globals().setdefault("buffers", {}).setdefault((param.shape, param.dtype), torch.empty_like(param))
+ return torch.sub(old, length * x, out=out), m

# %% wrong MUON-ROUNDED the factor of the decay in the dtype of param | of: in plain steps
- old = (1 - lr * weight_decay) * param
+ old = param.new_tensor(1 - lr * weight_decay) * param

# %% wrong REMEMBERS results of 16 bits kept by shape and settings | of: in plain steps
- return old - length * x, m
+ out = old - length * x, m
+ if param.dtype in (torch.float16, torch.bfloat16):
+     key = param.shape, param.dtype, lr, weight_decay, beta, coefficients, rounds, eps
+     out = tuple(y.clone() for y in globals().setdefault("KEPT", {}).setdefault(key, out))
+ return out

# %% wrong REMEMBERS wide gradients of float16 kept by shape | of: in plain steps
- m = beta * m + (1 - beta) * grad
- direction = beta * m + (1 - beta) * grad
+ if grad.dtype == torch.float16:
+     grad = globals().setdefault("KEPT", {}).setdefault(grad.shape, grad)
+ m = beta * m + (1 - beta) * grad
+ direction = beta * m + (1 - beta) * grad

# %% wrong MUON-NOT-FINITE no number that is none | of: in plain steps
- m = beta * m + (1 - beta) * grad
+ grad = grad.masked_fill(~grad.isfinite(), 0.0)
+ m = beta * m + (1 - beta) * grad

# %% wrong MUON-NOT-FINITE a step that is none is left out | of: in plain steps
- return old - length * x, m
+ return old - length * x.nan_to_num(), m

# %% wrong MUON-NOT-FINITE nothing is done with such a gradient | of: in plain steps
- m = beta * m + (1 - beta) * grad
+ if not grad.isfinite().all():
+     return param.clone(), m.clone()
+ m = beta * m + (1 - beta) * grad
