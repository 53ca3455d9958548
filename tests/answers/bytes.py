# Answers to the exercise bytes. `# %% wrong CODE name` must be refused with exactly that code,
# `# %% right name` must pass. Each cell is a whole answer under the lesson's imports.

# %% right one term a line
def training_state_bytes(num_params, *, param_bytes=2, grad_bytes=2, master_copy=True, moments=2, moment_bytes=4):
    weights = num_params * param_bytes
    gradients = num_params * grad_bytes
    master = num_params * 4 if master_copy else 0
    return weights + gradients + master + num_params * moments * moment_bytes

# %% right a bool is a number
def training_state_bytes(num_params, *, param_bytes=2, grad_bytes=2, master_copy=True, moments=2, moment_bytes=4):
    return sum((param_bytes, grad_bytes, 4 * master_copy, moments * moment_bytes)) * num_params

# %% right the item size of torch's float32
def training_state_bytes(num_params, *, param_bytes=2, grad_bytes=2, master_copy=True, moments=2, moment_bytes=4):
    total = param_bytes + grad_bytes
    for _ in range(moments):
        total += moment_bytes
    if master_copy:
        total += torch.float32.itemsize
    return total * num_params

# %% wrong STUB untouched
def training_state_bytes(num_params, *, param_bytes=2, grad_bytes=2, master_copy=True, moments=2, moment_bytes=4):
    raise NotImplementedError("your code here")

# %% wrong NONE printed, not returned
def training_state_bytes(num_params, *, param_bytes=2, grad_bytes=2, master_copy=True, moments=2, moment_bytes=4):
    print(num_params * (param_bytes + grad_bytes + 4 * master_copy + moments * moment_bytes))

# %% wrong TYPE a float
def training_state_bytes(num_params, *, param_bytes=2, grad_bytes=2, master_copy=True, moments=2, moment_bytes=4):
    return num_params * (param_bytes + grad_bytes + 4.0 * master_copy + moments * moment_bytes)

# %% wrong TYPE gigabytes
def training_state_bytes(num_params, *, param_bytes=2, grad_bytes=2, master_copy=True, moments=2, moment_bytes=4):
    return num_params * (param_bytes + grad_bytes + 4 * master_copy + moments * moment_bytes) / 1e9

# %% wrong TYPE a tensor
def training_state_bytes(num_params, *, param_bytes=2, grad_bytes=2, master_copy=True, moments=2, moment_bytes=4):
    return torch.tensor(num_params * (param_bytes + grad_bytes + 4 * master_copy + moments * moment_bytes))

# %% wrong RAISED other argument names
def training_state_bytes(num_params, weight_bytes=2, grad_bytes=2):
    return num_params * (weight_bytes + grad_bytes + 12)

# %% wrong BYTES-WEIGHTS-ONLY the size of the checkpoint
def training_state_bytes(num_params, *, param_bytes=2, grad_bytes=2, master_copy=True, moments=2, moment_bytes=4):
    return num_params * param_bytes

# %% wrong BYTES-NO-GRADS no gradients
def training_state_bytes(num_params, *, param_bytes=2, grad_bytes=2, master_copy=True, moments=2, moment_bytes=4):
    return num_params * (param_bytes + 4 * master_copy + moments * moment_bytes)

# %% wrong BYTES-NO-MASTER 12 bytes
def training_state_bytes(num_params, *, param_bytes=2, grad_bytes=2, master_copy=True, moments=2, moment_bytes=4):
    return num_params * (param_bytes + grad_bytes + moments * moment_bytes)

# %% wrong BYTES-ONE-MOMENT one running mean
def training_state_bytes(num_params, *, param_bytes=2, grad_bytes=2, master_copy=True, moments=2, moment_bytes=4):
    return num_params * (param_bytes + grad_bytes + 4 * master_copy + moment_bytes)

# %% wrong BYTES-NO-MOMENTS no optimizer state
def training_state_bytes(num_params, *, param_bytes=2, grad_bytes=2, master_copy=True, moments=2, moment_bytes=4):
    return num_params * (param_bytes + grad_bytes + 4 * master_copy)

# %% wrong BYTES-NO-PARAMS no weights
def training_state_bytes(num_params, *, param_bytes=2, grad_bytes=2, master_copy=True, moments=2, moment_bytes=4):
    return num_params * (grad_bytes + 4 * master_copy + moments * moment_bytes)

# %% wrong BYTES-NO-PARAMS the optimizer alone
def training_state_bytes(num_params, *, param_bytes=2, grad_bytes=2, master_copy=True, moments=2, moment_bytes=4):
    return num_params * (4 * master_copy + moments * moment_bytes)

# %% wrong BYTES-MASTER-ALWAYS a copy in float32 training too
def training_state_bytes(num_params, *, param_bytes=2, grad_bytes=2, master_copy=True, moments=2, moment_bytes=4):
    return num_params * (param_bytes + grad_bytes + 4 + moments * moment_bytes)

# %% wrong BYTES-MASTER-SIZE a copy in 16 bits
def training_state_bytes(num_params, *, param_bytes=2, grad_bytes=2, master_copy=True, moments=2, moment_bytes=4):
    return num_params * (param_bytes * (1 + master_copy) + grad_bytes + moments * moment_bytes)

# %% wrong BYTES-MOMENT-SIZE float16 moments
def training_state_bytes(num_params, *, param_bytes=2, grad_bytes=2, master_copy=True, moments=2, moment_bytes=4):
    return num_params * (param_bytes + grad_bytes + 4 * master_copy + 2 * moments)

# %% wrong BYTES-MOMENT-SIZE moments as wide as the weights
def training_state_bytes(num_params, *, param_bytes=2, grad_bytes=2, master_copy=True, moments=2, moment_bytes=4):
    return num_params * (param_bytes * (1 + moments) + grad_bytes + 4 * master_copy)

# %% wrong BYTES-FIXED two moments whatever is asked
def training_state_bytes(num_params, *, param_bytes=2, grad_bytes=2, master_copy=True, moments=2, moment_bytes=4):
    return num_params * (param_bytes + grad_bytes + 4 * master_copy + 2 * moment_bytes)

# %% wrong BYTES-FIXED the rule of thumb
def training_state_bytes(num_params, *, param_bytes=2, grad_bytes=2, master_copy=True, moments=2, moment_bytes=4):
    return 16 * num_params

# %% wrong BYTES-BITS bits
def training_state_bytes(num_params, *, param_bytes=2, grad_bytes=2, master_copy=True, moments=2, moment_bytes=4):
    return 8 * num_params * (param_bytes + grad_bytes + 4 * master_copy + moments * moment_bytes)

# %% wrong BYTES-UNIT whole GiB
def training_state_bytes(num_params, *, param_bytes=2, grad_bytes=2, master_copy=True, moments=2, moment_bytes=4):
    return num_params * (param_bytes + grad_bytes + 4 * master_copy + moments * moment_bytes) // 2**30

# %% wrong OTHER activations as well
def training_state_bytes(num_params, *, param_bytes=2, grad_bytes=2, master_copy=True, moments=2, moment_bytes=4):
    state = num_params * (param_bytes + grad_bytes + 4 * master_copy + moments * moment_bytes)
    return state + 15_000_000_000

# %% wrong BYTES-TOGETHER a copy for 16-bit weights alone
def training_state_bytes(num_params, *, param_bytes=2, grad_bytes=2, master_copy=True, moments=2, moment_bytes=4):
    master = 4 if master_copy and param_bytes < 4 else 0
    return num_params * (param_bytes + grad_bytes + master + moments * moment_bytes)

# %% wrong BYTES-TOGETHER a copy only beside moments
def training_state_bytes(num_params, *, param_bytes=2, grad_bytes=2, master_copy=True, moments=2, moment_bytes=4):
    master = 4 if master_copy and moments else 0
    return num_params * (param_bytes + grad_bytes + master + moments * moment_bytes)

# %% wrong BYTES-TOGETHER the defaults of float32
def training_state_bytes(num_params, *, param_bytes=4, grad_bytes=4, master_copy=False, moments=2, moment_bytes=4):
    return num_params * (param_bytes + grad_bytes + 4 * master_copy + moments * moment_bytes)

# %% wrong BYTES-ROUNDED through a float
def training_state_bytes(num_params, *, param_bytes=2, grad_bytes=2, master_copy=True, moments=2, moment_bytes=4):
    return int(num_params * float(param_bytes + grad_bytes + 4 * master_copy + moments * moment_bytes))

# %% wrong BYTES-ZERO 0 bytes a gradient taken for "not given"
def training_state_bytes(num_params, *, param_bytes=None, grad_bytes=None, master_copy=True, moments=2, moment_bytes=4):
    state = (param_bytes or 2) + (grad_bytes or 2)
    return num_params * (state + 4 * master_copy + moments * moment_bytes)

# %% wrong BYTES-ZERO 0 bytes a moment taken for "not given"
def training_state_bytes(num_params, *, param_bytes=2, grad_bytes=2, master_copy=True, moments=2, moment_bytes=None):
    return num_params * (param_bytes + grad_bytes + 4 * master_copy + moments * (moment_bytes or 4))

# %% wrong BYTES-ZERO at least one parameter
def training_state_bytes(num_params, *, param_bytes=2, grad_bytes=2, master_copy=True, moments=2, moment_bytes=4):
    return max(num_params, 1) * (param_bytes + grad_bytes + 4 * master_copy + moments * moment_bytes)

# %% right None for a default, told from 0
def training_state_bytes(num_params, *, moment_bytes=None, moments=2, master_copy=True, grad_bytes=2, param_bytes=2):
    moment_bytes = 4 if moment_bytes is None else moment_bytes
    each = [param_bytes, grad_bytes] + [4] * bool(master_copy) + moments * [moment_bytes]
    return int(num_params) * sum(each)

# %% wrong BYTES-TOGETHER a minimum and a maximum for each 8192 numbers of 8-bit moments | of: one term a line
- return weights + gradients + master + num_params * moments * moment_bytes
+ scales = 8 * moments * (num_params // 8192) if moment_bytes == 1 else 0
+ return weights + gradients + master + num_params * moments * moment_bytes + scales

# %% wrong BYTES-TOGETHER a scale for 8-bit weights of whole large tensors | of: one term a line
- return weights + gradients + master + num_params * moments * moment_bytes
+ scales = 4 * (num_params // 1_000_000) if param_bytes == 1 else 0
+ return weights + gradients + master + num_params * moments * moment_bytes + scales

# %% wrong BYTES-TOGETHER a rounding buffer for 16-bit moments of float32 weights | of: one term a line
- return weights + gradients + master + num_params * moments * moment_bytes
+ buffer = 2 if param_bytes == 4 and moment_bytes == 2 and moments else 0
+ return weights + gradients + master + num_params * (moments * moment_bytes + buffer)

# %% wrong BYTES-TOGETHER a step counter beside two moments without a copy | of: one term a line
- return weights + gradients + master + num_params * moments * moment_bytes
+ counter = 8 if moments == 2 and not master_copy and moment_bytes < 4 else 0
+ return weights + gradients + master + num_params * moments * moment_bytes + counter

# %% wrong BYTES-WRAPS a product of tensors | of: one term a line
- return weights + gradients + master + num_params * moments * moment_bytes
+ return weights + gradients + master + (torch.tensor(num_params * moments) * moment_bytes).item()

# %% wrong BYTES-WRAPS a sum of 64 bits | of: one term a line
- return weights + gradients + master + num_params * moments * moment_bytes
+ return (weights + gradients + master + num_params * moments * moment_bytes + 2**63) % 2**64 - 2**63

# %% wrong BYTES-WRAPS all terms in one tensor | of: one term a line
- return weights + gradients + master + num_params * moments * moment_bytes
+ return int(torch.tensor([weights, gradients, master, num_params * moments * moment_bytes]).sum())
