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
