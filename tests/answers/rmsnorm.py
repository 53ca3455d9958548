# Answers to the exercise rmsnorm.

# %% right torch's own
class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return F.rms_norm(x.float(), self.weight.shape, self.weight.float(), self.eps).type_as(x)

# %% right norm and a division, in float64
class RMSNorm(nn.Module):
    def __init__(self, dim: int, eps: float = 1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        wide = x.double()
        length = wide.square().sum(dim=-1, keepdim=True) / wide.size(-1)
        wide = wide / (length + self.eps).sqrt()
        return (self.weight * wide).to(dtype=x.dtype)

# %% right einsum and an unsqueeze
class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.ones(dim))

    def forward(self, x):
        y = x.to(torch.float32)
        mean_square = torch.einsum("...d,...d->...", y, y) / y.shape[-1]
        return (y / (mean_square + self.eps).pow(0.5).unsqueeze(-1) * self.weight).to(x.dtype)

# %% right in plain steps
class RMSNorm(RMSNorm):
    def forward(self, x):
        y = x.float()
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight).to(x.dtype)

# %% wrong STUB untouched | of: torch's own
- return F.rms_norm(x.float(), self.weight.shape, self.weight.float(), self.eps).type_as(x)
+ raise NotImplementedError("your code here")

# %% wrong NONE no return
class RMSNorm(RMSNorm):
    def forward(self, x):
        x_f32 = x.float()
        (x_f32 * torch.rsqrt(x_f32.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight).to(x.dtype)

# %% wrong SHAPE returns the mean square
class RMSNorm(RMSNorm):
    def forward(self, x):
        return x.float().pow(2).mean(-1, keepdim=True).to(x.dtype)

# %% wrong RMS-SUM sum of squares
- return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight).to(x.dtype)
+ return (y * torch.rsqrt(y.pow(2).sum(-1, keepdim=True) + self.eps) * self.weight).to(x.dtype)

# %% wrong RMS-NO-ROOT divides by the mean square
- return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight).to(x.dtype)
+ return (y / (y.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight).to(x.dtype)

# %% wrong RMS-MULTIPLIED multiplies by the root
- return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight).to(x.dtype)
+ return (y * torch.sqrt(y.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight).to(x.dtype)

# %% wrong RMS-DIM mean over the sequence
- return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight).to(x.dtype)
+ dim = max(y.dim() - 2, 0)
+ return (y * torch.rsqrt(y.pow(2).mean(dim, keepdim=True) + self.eps) * self.weight).to(x.dtype)

# %% wrong RMS-ALL mean over everything
- return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight).to(x.dtype)
+ return (y * torch.rsqrt(y.pow(2).mean() + self.eps) * self.weight).to(x.dtype)

# %% wrong RMS-CENTERED LayerNorm
  y = x.float()
+ y = y - y.mean(-1, keepdim=True)

# %% wrong RMS-NO-GAIN forgets the gain
- return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight).to(x.dtype)
+ return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)).to(x.dtype)

# %% wrong RMS-GAIN-FIRST gain before the norm
class RMSNorm(RMSNorm):
    def forward(self, x):
        y = x.float() * self.weight
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)).to(x.dtype)

# %% wrong RMS-NO-EPS no epsilon
- return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight).to(x.dtype)
+ return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True)) * self.weight).to(x.dtype)

# %% wrong RMS-EPS-OUTSIDE epsilon added to the root
- return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight).to(x.dtype)
+ return (y / (y.pow(2).mean(-1, keepdim=True).sqrt() + self.eps) * self.weight).to(x.dtype)

# %% wrong RMS-EPS-FIXED epsilon written as a number
- return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight).to(x.dtype)
+ return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight).to(x.dtype)

# %% wrong RMS-FP16 squares in the input's dtype
class RMSNorm(RMSNorm):
    def forward(self, x):
        return (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight).to(x.dtype)

# %% wrong RMS-BF16 squares in float32, products in bfloat16
class RMSNorm(RMSNorm):
    def forward(self, x):
        scale = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + self.eps).to(x.dtype)
        return (x * scale * self.weight.to(x.dtype))

# %% wrong DTYPE no cast back
- return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight).to(x.dtype)
+ return y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight

# %% wrong RMS-DETACHED a detached root
- return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight).to(x.dtype)
+ scale = torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps).detach()
+ return (y * scale * self.weight).to(x.dtype)

# %% wrong INPLACE writes into x
  def forward(self, x):
+     if x.dtype == torch.float32:
+         return x.mul_(torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)).mul(self.weight)

# %% wrong RAISED overwrites what the backward pass needs
class RMSNorm(RMSNorm):
    def forward(self, x):
        wide = x.double().clone()
        wide /= (wide.square().mean(-1, keepdim=True) + self.eps).sqrt()
        return (self.weight * wide).to(x.dtype)

# %% wrong RAISED a typo
class RMSNorm(RMSNorm):
    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdims=True) + self.epsilon) * self.weight

# %% wrong RMS-BF16 rounded before the gain and after it
- return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight).to(x.dtype)
+ return self.weight.to(x.dtype) * (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)).to(x.dtype)

# %% wrong RMS-EPS-DEFAULT the eps of another course | of: torch's own
- def __init__(self, dim, eps=1e-5):
+ def __init__(self, dim, eps=1e-6):

# %% wrong STRIDED views rows
- y = x.float()
- return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight).to(x.dtype)
+ y = x.float().view(-1, x.shape[-1])
+ y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight
+ return y.view(x.shape).to(x.dtype)

# %% right rows by reshape
class RMSNorm(RMSNorm):
    def forward(self, x):
        y = x.reshape(-1, x.shape[-1]).float()
        y = y * (y.square().mean(1, True) + self.eps).rsqrt() * self.weight
        return y.to(x.dtype).reshape(x.shape)

# %% right the gain times the inverse root first, the length by linalg
class RMSNorm(RMSNorm):
    def forward(self, x):
        wide = x if x.dtype == torch.float64 else x.float()
        rms = torch.linalg.vector_norm(wide, dim=-1, keepdim=True).square() / x.size(-1)
        scale = (rms + self.eps).reciprocal().sqrt() * self.weight.to(wide.dtype)
        return scale.mul(wide).type(x.dtype)

# %% right the gain as a column, beside transposed vectors
class RMSNorm(RMSNorm):
    def forward(self, x):
        columns = x.unsqueeze(-1).double()
        mean = columns.mT @ columns / len(self.weight)
        return (columns * self.weight[:, None] * (mean + self.eps) ** -0.5).squeeze(-1).to(x.dtype)

# %% wrong RMS-BF16 a float32 gain in the dtype of x
class RMSNorm(RMSNorm):
    def forward(self, x):
        y, gain = x.float(), self.weight.to(x.dtype).float()
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps) * gain).to(x.dtype)

# %% wrong RMS-BF16 results in the dtype of the gain
class RMSNorm(RMSNorm):
    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return (y.to(self.weight.dtype).float() * self.weight).to(x.dtype)

# %% wrong REMEMBERS the gain of the first call
class RMSNorm(RMSNorm):
    def forward(self, x):
        if not hasattr(self, "gain"):
            self.gain = self.weight.detach().clone().float()
        gain = self.gain if not torch.is_grad_enabled() else self.weight
        y = x.float()
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps) * gain).to(x.dtype)

# %% wrong OTHER scales kept by shape
class RMSNorm(RMSNorm):
    kept = {}

    def forward(self, x):
        y = x.float()
        if torch.is_grad_enabled() or x.shape not in self.kept:
            self.kept[x.shape] = torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return (y * self.kept[x.shape] * self.weight).to(x.dtype)

# %% wrong RESULT-CHANGES one tensor for all results
class RMSNorm(RMSNorm):
    rows = {}

    def forward(self, x):
        y = x.float()
        y = (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight).to(x.dtype)
        if torch.is_grad_enabled():
            return y
        return self.rows.setdefault((x.shape, x.dtype), torch.empty_like(y)).copy_(y)

# %% wrong RMS-EPS-ZERO an eps of 0 taken for none
class RMSNorm(RMSNorm):
    def forward(self, x):
        y, eps = x.float(), self.eps or 1e-5
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + eps) * self.weight).to(x.dtype)

# %% wrong RMS-NAN-GRAD a root of the mean square before eps
class RMSNorm(RMSNorm):
    def forward(self, x):
        y = x.float()
        rms = y.pow(2).mean(-1, keepdim=True).sqrt()
        return (y * torch.rsqrt(rms**2 + self.eps) * self.weight).to(x.dtype)

# %% wrong RMS-LIMITED vectors cut off at the range of float16
class RMSNorm(RMSNorm):
    def forward(self, x):
        y = x.float().clamp(-65504, 65504)
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight).to(x.dtype)

# %% wrong RMS-LIMITED results cut off at 1,000
class RMSNorm(RMSNorm):
    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight
        return y.clamp(-1000, 1000).to(x.dtype)

# %% wrong RMS-NO-GRAD no graph in 16 bits
class RMSNorm(RMSNorm):
    def forward(self, x):
        y = x.float() if x.dtype == torch.float32 else x.detach().float()
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight).to(x.dtype)

# %% wrong STRIDED a row read in the order of the memory
class RMSNorm(RMSNorm):
    def forward(self, x):
        y = x.float()
        if y.dim() > 1 and y.stride(-1) != 1:
            y = y.transpose(-2, -1).contiguous().view(x.shape)
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight).to(x.dtype)

# %% wrong SHAPE every dimension of 1 dropped
class RMSNorm(RMSNorm):
    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight
        return y.to(x.dtype) if len(self.weight) > 1 else y.to(x.dtype).squeeze(-1)

# %% wrong OTHER float32 results in the dtype of the gain
class RMSNorm(RMSNorm):
    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight.float()
        return y.to(torch.promote_types(x.dtype, self.weight.dtype) if x.dtype != torch.float32 else self.weight.dtype).to(x.dtype)

# %% wrong INPLACE writes into x in eval mode | of: torch's own
  def forward(self, x):
+     if not self.training:
+         return x.copy_(F.rms_norm(x, self.weight.shape, self.weight, self.eps))

# %% wrong STRIDED squares in a room with the strides of x | of: in plain steps
- return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight).to(x.dtype)
+ room = torch.empty_strided(x.shape, x.stride(), dtype=y.dtype).copy_(y.pow(2))
+ return (y * torch.rsqrt(room.mean(-1, keepdim=True) + self.eps) * self.weight).to(x.dtype)

# %% wrong REMEMBERS wide copies of float16 kept by shape | of: in plain steps
- y = x.float()
+ y = x.float()
+ if x.dtype == torch.float16:
+     y = self.__dict__.setdefault("wide", {}).setdefault(x.shape, y)

# %% wrong REMEMBERS the first gain beside float16, without gradients | of: in plain steps
- return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight).to(x.dtype)
+ gain = self.weight
+ if x.dtype == torch.float16 and not torch.is_grad_enabled():
+     gain = self.__dict__.setdefault(str(gain.dtype), gain.detach().float().clone())
+ return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps) * gain).to(x.dtype)

# %% wrong REMEMBERS the gain in float32, made once for evaluation
class RMSNorm(RMSNorm):
    def forward(self, x):
        if self.training:
            vars(self).pop("gain", None)
            gain = self.weight.float()
        else:
            gain = vars(self).setdefault("gain", self.weight.detach().float().clone())
        y = x.float()
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps) * gain).to(x.dtype)

# %% wrong REMEMBERS the gain as it was loaded
class RMSNorm(RMSNorm):
    def _load_from_state_dict(self, *args, **kwargs):
        super()._load_from_state_dict(*args, **kwargs)
        self.gain = self.weight.detach().clone()

    def forward(self, x):
        gain = self.weight if torch.is_grad_enabled() else getattr(self, "gain", self.weight)
        y = x.float()
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps) * gain).to(x.dtype)

# %% wrong RESULT-CHANGES a room for a single vector
class RMSNorm(RMSNorm):
    def forward(self, x):
        y = x.float()
        out = (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight).to(x.dtype)
        if out.requires_grad or x.numel() > x.shape[-1]:
            return out
        room = vars(self).setdefault("room", {})
        return room.setdefault((out.shape, out.dtype), torch.empty_like(out)).copy_(out)

# %% wrong RAISED rows counted by torch, also where there are none
class RMSNorm(RMSNorm):
    def forward(self, x):
        y = x.float()
        rows = y.reshape(*y.shape[:-1], -1) if y.dim() > 2 else y
        mean = rows.pow(2).mean(-1, keepdim=True).reshape(*y.shape[:-1], 1)
        return (y * torch.rsqrt(mean + self.eps) * self.weight).to(x.dtype)
