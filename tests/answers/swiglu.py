# Answers to the exercise swiglu. `# %% wrong CODE name` must be refused with exactly that code,
# `# %% right name` must pass. Each cell is a whole answer under the lesson's imports.

# %% right SiLU written out
class MLP(nn.Module):
    def __init__(self, d_model, d_hidden):
        super().__init__()
        self.gate_proj = nn.Linear(d_model, d_hidden, bias=False)
        self.up_proj = nn.Linear(d_model, d_hidden, bias=False)
        self.down_proj = nn.Linear(d_hidden, d_model, bias=False)
        self.down_proj.writes_residual = True

    def forward(self, x):
        gate = self.gate_proj(x)
        wide = gate.to(torch.promote_types(gate.dtype, torch.float32))
        silu = (wide * torch.sigmoid(wide)).to(gate.dtype)
        return self.down_proj(silu * self.up_proj(x))

# %% wrong SWIGLU-NAN-GRAD SiLU written out in the dtype of x
- wide = gate.to(torch.promote_types(gate.dtype, torch.float32))
- silu = (wide * torch.sigmoid(wide)).to(gate.dtype)
+ silu = gate * torch.sigmoid(gate)

# %% wrong SWIGLU-LEAK a gate that stops at -20
- gate = self.gate_proj(x)
+ gate = self.gate_proj(x).clamp(min=-20)

# %% wrong FIXED-INPUT checkpointed by its inputs
- silu = (wide * torch.sigmoid(wide)).to(gate.dtype)
- return self.down_proj(silu * self.up_proj(x))
+ from torch.utils.checkpoint import checkpoint
+
+ def inner(x):
+     return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
+
+ return checkpoint(inner, x, use_reentrant=True)

# %% wrong DEFAULT-DTYPE hidden values in a room of torch's default dtype
- return self.down_proj(silu * self.up_proj(x))
+ if x.requires_grad:
+     return self.down_proj(silu * self.up_proj(x))
+ room = torch.empty(silu.shape).copy_(silu * self.up_proj(x))
+ return self.down_proj(room.to(x.dtype))

# %% right one matmul for gate and up
class MLP(MLP):
    def forward(self, x):
        both = F.linear(x, torch.cat((self.gate_proj.weight, self.up_proj.weight)))
        gate, up = both.chunk(2, dim=-1)
        return F.linear(F.silu(gate) * up, self.down_proj.weight)

# %% right einsum in float64
class MLP(MLP):
    def forward(self, x):
        wide = x.double()
        gate = torch.einsum("btd,fd->btf", wide, self.gate_proj.weight.double())
        up = torch.einsum("btd,fd->btf", wide, self.up_proj.weight.double())
        hidden = up * gate / (1 + torch.exp(-gate))
        return torch.einsum("btf,df->btd", hidden, self.down_proj.weight.double()).to(x.dtype)

# %% right F.glu with the gate as both halves
class MLP(MLP):
    def forward(self, x):
        gate = self.gate_proj(x)
        return self.down_proj(F.glu(torch.cat((gate, gate), dim=-1)) * self.up_proj(x))

# %% right in place on its own tensors
class MLP(MLP):
    def forward(self, x):
        hidden = F.silu(self.gate_proj(x), inplace=True).clone()
        return self.down_proj(hidden.mul_(self.up_proj(x)))

# %% wrong STUB untouched
class MLP(MLP):
    def forward(self, x):
        raise NotImplementedError("your code here")

# %% wrong NONE no return
class MLP(MLP):
    def forward(self, x):
        self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))

# %% wrong TYPE returns both branches
class MLP(MLP):
    def forward(self, x):
        return F.silu(self.gate_proj(x)), self.up_proj(x)

# %% wrong RAISED up after gate
class MLP(MLP):
    def forward(self, x):
        return self.down_proj(self.up_proj(F.silu(self.gate_proj(x))))

# %% wrong RAISED the weight without its transpose
class MLP(MLP):
    def forward(self, x):
        return (F.silu(x @ self.gate_proj.weight) * (x @ self.up_proj.weight)) @ self.down_proj.weight

# %% wrong DTYPE float64 and no way back
class MLP(MLP):
    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x)).double()

# %% wrong SWIGLU-STATE biases and other names
class MLP(nn.Module):
    def __init__(self, d_model, d_hidden):
        super().__init__()
        self.w1, self.w3 = nn.Linear(d_model, d_hidden), nn.Linear(d_model, d_hidden)
        self.w2 = nn.Linear(d_hidden, d_model)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))

# %% wrong SWIGLU-NO-DOWN no third projection
class MLP(MLP):
    def forward(self, x):
        return F.silu(self.gate_proj(x)) * self.up_proj(x)

# %% wrong SWIGLU-SWAPPED SiLU on up
class MLP(MLP):
    def forward(self, x):
        return self.down_proj(self.gate_proj(x) * F.silu(self.up_proj(x)))

# %% wrong SWIGLU-NO-SILU no activation
class MLP(MLP):
    def forward(self, x):
        return self.down_proj(self.gate_proj(x) * self.up_proj(x))

# %% wrong SWIGLU-BOTH SiLU on both
class MLP(MLP):
    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * F.silu(self.up_proj(x)))

# %% wrong SWIGLU-LATE SiLU of the product
class MLP(MLP):
    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x) * self.up_proj(x)))

# %% wrong SWIGLU-LATE SiLU after down
class MLP(MLP):
    def forward(self, x):
        return F.silu(self.down_proj(self.gate_proj(x) * self.up_proj(x)))

# %% wrong SWIGLU-SUM plus in place of times
class MLP(MLP):
    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) + self.up_proj(x))

# %% wrong SWIGLU-SUM SiLU of the sum
class MLP(MLP):
    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x) + self.up_proj(x)))

# %% wrong SWIGLU-ONE-BRANCH an ordinary MLP
class MLP(MLP):
    def forward(self, x):
        return self.down_proj(F.silu(self.up_proj(x)))

# %% wrong SWIGLU-ONE-BRANCH up is never used
class MLP(MLP):
    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)))

# %% wrong SWIGLU-ONE-BRANCH gate_proj copied for up_proj
class MLP(MLP):
    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.gate_proj(x))

# %% wrong SWIGLU-SIGMOID a plain GLU
class MLP(MLP):
    def forward(self, x):
        return self.down_proj(torch.sigmoid(self.gate_proj(x)) * self.up_proj(x))

# %% wrong SWIGLU-GLU F.glu in the wrong order
class MLP(MLP):
    def forward(self, x):
        return self.down_proj(F.glu(torch.cat((self.gate_proj(x), self.up_proj(x)), dim=-1)))

# %% wrong SWIGLU-GELU the other smooth activation
class MLP(MLP):
    def forward(self, x):
        return self.down_proj(F.gelu(self.gate_proj(x)) * self.up_proj(x))

# %% wrong SWIGLU-GELU its tanh form
class MLP(MLP):
    def forward(self, x):
        return self.down_proj(F.gelu(self.gate_proj(x), approximate="tanh") * self.up_proj(x))

# %% wrong SWIGLU-RELU ReLU
class MLP(MLP):
    def forward(self, x):
        return self.down_proj(F.relu(self.gate_proj(x)) * self.up_proj(x))

# %% wrong SWIGLU-TANH tanh
class MLP(MLP):
    def forward(self, x):
        return self.down_proj(torch.tanh(self.gate_proj(x)) * self.up_proj(x))

# %% wrong SWIGLU-SOFTMAX gates that sum to one
class MLP(MLP):
    def forward(self, x):
        return self.down_proj(self.gate_proj(x).softmax(dim=-1) * self.up_proj(x))

# %% wrong SWIGLU-RESIDUAL x added
class MLP(MLP):
    def forward(self, x):
        return x + self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))

# %% wrong SWIGLU-RANDOM dropout
class MLP(MLP):
    def forward(self, x):
        return F.dropout(self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x)), 0.5)

# %% wrong SWIGLU-DETACHED a gate outside the graph
class MLP(MLP):
    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)).detach() * self.up_proj(x))

# %% wrong OTHER an activation of its own
class MLP(MLP):
    def forward(self, x):
        return self.down_proj(F.mish(self.gate_proj(x)) * self.up_proj(x))

# %% wrong OTHER a factor too many
class MLP(MLP):
    def forward(self, x):
        hidden = F.silu(self.gate_proj(x)) * self.up_proj(x)
        return self.down_proj(hidden) / hidden.shape[-1] ** 0.5

# %% wrong INPLACE writes into x
class MLP(MLP):
    def forward(self, x):
        return x.copy_(self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))).clone()

# %% right rows by reshape, a sigmoid of tanh
class MLP(MLP):
    def forward(self, x):
        rows = x.reshape(-1, x.shape[-1])
        gate = self.gate_proj(rows)
        wide = gate.to(torch.promote_types(gate.dtype, torch.float32))
        silu = (wide * (1 + torch.tanh(wide / 2)) / 2).to(gate.dtype)
        return self.down_proj(silu * self.up_proj(rows)).reshape(x.shape)

# %% wrong SWIGLU-NAN-GRAD a sigmoid of tanh, all in float16
- wide = gate.to(torch.promote_types(gate.dtype, torch.float32))
- silu = (wide * (1 + torch.tanh(wide / 2)) / 2).to(gate.dtype)
+ silu = gate * ((1 + torch.tanh(gate / 2)) / 2)

# %% wrong STRIDED rows by view
class MLP(MLP):
    def forward(self, x):
        rows = x.view(-1, x.shape[-1])
        return self.down_proj(F.silu(self.gate_proj(rows)) * self.up_proj(rows)).view(x.shape)

# %% wrong SWIGLU-OVERFLOW a sigmoid of two large numbers
class MLP(MLP):
    def forward(self, x):
        gate = self.gate_proj(x)
        return self.down_proj(gate * gate.exp() / (1 + gate.exp()) * self.up_proj(x))

# %% wrong SWIGLU-LIMITED cut off at the range of float16
class MLP(MLP):
    def forward(self, x):
        hidden = F.silu(self.gate_proj(x)) * self.up_proj(x)
        return self.down_proj(hidden.clamp(-65504, 65504))

# %% right logsigmoid, transposed matrices, the width of 1 kept
class MLP(MLP):
    def forward(self, x):
        z = torch.matmul(x, self.gate_proj.weight.T).double()
        hidden = F.logsigmoid(z).exp().mul(z).to(x.dtype) * torch.matmul(x, self.up_proj.weight.T)
        return torch.matmul(hidden, self.down_proj.weight.T)

# %% right SiLU in float32, token by token
class MLP(MLP):
    def forward(self, x):
        def one(token):
            z, u = self.gate_proj(token), self.up_proj(token)
            wide = z if z.dtype == torch.float64 else z.float()
            return self.down_proj((wide * wide.sigmoid() * u).to(x.dtype))

        return torch.stack([torch.stack([one(token) for token in row]) for row in x])

# %% wrong SWIGLU-OVERFLOW gate times up before the sigmoid
class MLP(MLP):
    def forward(self, x):
        gate, up = self.gate_proj(x), self.up_proj(x)
        return self.down_proj(gate * up * torch.sigmoid(gate))

# %% wrong SWIGLU-OVERFLOW F.glu of the product and the gate
class MLP(MLP):
    def forward(self, x):
        gate, up = self.gate_proj(x), self.up_proj(x)
        return self.down_proj(F.glu(torch.cat((gate * up, gate), dim=-1)))

# %% wrong SWIGLU-NAN-GRAD a sigmoid by hand
class MLP(MLP):
    def forward(self, x):
        gate = self.gate_proj(x)
        return self.down_proj(gate / (1 + torch.exp(-gate)) * self.up_proj(x))

# %% wrong SWIGLU-NAN-GRAD two sigmoids by hand, one thrown away
class MLP(MLP):
    def forward(self, x):
        gate = self.gate_proj(x)
        open_by = torch.where(gate > 0, 1 / (1 + torch.exp(-gate)), gate.exp() / (1 + gate.exp()))
        return self.down_proj(gate * open_by * self.up_proj(x))

# %% wrong SWIGLU-RESIDUAL-MARK the mark of the down projection dropped | of: SiLU written out
- self.down_proj.writes_residual = True

# %% wrong SWIGLU-RESIDUAL-MARK a down projection made anew | of: SiLU written out
  self.down_proj.writes_residual = True
+ self.down_proj = nn.Linear(d_hidden, d_model, bias=False)

# %% wrong REMEMBERS the joined matrices of the first call
class MLP(MLP):
    def forward(self, x):
        joined = torch.cat((self.gate_proj.weight, self.up_proj.weight))
        if not torch.is_grad_enabled():
            self.joined = getattr(self, "joined", joined)
            joined = self.joined.to(x.dtype)
        gate, up = F.linear(x, joined).chunk(2, dim=-1)
        return self.down_proj(F.silu(gate) * up)

# %% wrong RESULT-CHANGES one tensor for all results
class MLP(MLP):
    def forward(self, x):
        out = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        if torch.is_grad_enabled():
            return out
        if getattr(self, "out", None) is None or self.out.shape != out.shape:
            self.out = out.clone()
        return self.out.copy_(out)

# %% wrong OTHER float64 through float32
class MLP(MLP):
    def forward(self, x):
        narrow = torch.float32 if x.dtype == torch.float64 else x.dtype
        gate, up, down = (p.weight.to(narrow) for p in (self.gate_proj, self.up_proj, self.down_proj))
        x, dtype = x.to(narrow), x.dtype
        return F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down).to(dtype)

# %% wrong SHAPE one token is enough
class MLP(MLP):
    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x)).squeeze(1)

# %% wrong SHAPE one sequence is enough
class MLP(MLP):
    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x)).squeeze(0)

# %% wrong INPLACE writes into x in eval mode | of: SiLU written out
- return self.down_proj(silu * self.up_proj(x))
+ out = self.down_proj(silu * self.up_proj(x))
+ return out if self.training else x.copy_(out)

# %% wrong STRIDED a copy of x with its strides
class MLP(MLP):
    def forward(self, x):
        if not x.requires_grad:
            x = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype).copy_(x)
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))

# %% wrong REMEMBERS hidden values of 16 bits kept by shape, without gradients
class MLP(MLP):
    def forward(self, x):
        hidden = F.silu(self.gate_proj(x)) * self.up_proj(x)
        if x.dtype in (torch.float16, torch.bfloat16) and not torch.is_grad_enabled():
            hidden = self.__dict__.setdefault("kept", {}).setdefault(x.shape, hidden)
        return self.down_proj(hidden)

# %% wrong REMEMBERS the joined matrices in 16 bits, without gradients
class MLP(MLP):
    def forward(self, x):
        joined = torch.cat((self.gate_proj.weight, self.up_proj.weight))
        if x.dtype in (torch.float16, torch.bfloat16) and not torch.is_grad_enabled():
            joined = self.__dict__.setdefault("joined", {}).setdefault(x.dtype, joined)
        gate, up = F.linear(x, joined).chunk(2, dim=-1)
        return self.down_proj(F.silu(gate) * up)

# %% wrong REMEMBERS all three matrices transposed once for evaluation
class MLP(MLP):
    def forward(self, x):
        if self.training:
            weights = [p.weight.T for p in (self.gate_proj, self.up_proj, self.down_proj)]
        else:
            if "turned" not in vars(self):
                self.turned = [p.weight.detach().T.clone() for p in (self.gate_proj, self.up_proj, self.down_proj)]
            weights = self.turned
        gate, up, down = weights
        return (F.silu(x @ gate) * (x @ up)) @ down

# %% wrong REMEMBERS joined matrices without gradients, until others are loaded
class MLP(MLP):
    def _load_from_state_dict(self, *args, **kwargs):
        super()._load_from_state_dict(*args, **kwargs)
        self.joined = None

    def forward(self, x):
        joined = getattr(self, "joined", None)
        if torch.is_grad_enabled() or self.training or joined is None or joined.dtype != x.dtype:
            joined = torch.cat((self.gate_proj.weight, self.up_proj.weight))
            if not torch.is_grad_enabled() and not self.training:
                self.joined = joined
        gate, up = F.linear(x, joined).chunk(2, dim=-1)
        return self.down_proj(F.silu(gate) * up)

# %% wrong RESULT-CHANGES a room for one token
class MLP(MLP):
    def forward(self, x):
        out = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        if out.requires_grad or x.shape[1] > 1:
            return out
        room = vars(self).setdefault("room", {})
        return room.setdefault((out.shape, out.dtype), torch.empty_like(out)).copy_(out)

# %% wrong REMEMBERS the result of the tensor that came last
class MLP(MLP):
    def forward(self, x):
        out = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        if out.requires_grad or self.training:
            return out
        last = vars(self).setdefault("last", [x, out])
        if last[0] is not x:
            last[:] = x, out
        return last[1].clone()
