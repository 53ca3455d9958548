# Answers to the exercise block-forward. `# %% wrong CODE name` must be refused with exactly that
# code, `# %% right name` must pass. Each cell is a whole answer under the lesson's imports.

# %% right two lines
class TransformerBlock(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attention_norm = RMSNorm(config.d_model, config.norm_eps)
        self.attention = CausalSelfAttention(config)
        self.mlp_norm = RMSNorm(config.d_model, config.norm_eps)
        self.mlp = MLP(config.d_model, config.d_hidden)

    def forward(self, x, cos, sin):
        x = x + self.attention(self.attention_norm(x), cos, sin)
        return x + self.mlp(self.mlp_norm(x))

# %% wrong BLOCK-LIMITED in float16 the stream ends a little below the largest number
- return x + self.mlp(self.mlp_norm(x))
+ x = x + self.mlp(self.mlp_norm(x))
+ if x.dtype == torch.float16:
+     x = x.clamp(-64504, 64504)
+ return x

# %% wrong BLOCK-LIMITED in float16 the stream ends at the largest number
- return x + self.mlp(self.mlp_norm(x))
+ x = x + self.mlp(self.mlp_norm(x))
+ if x.dtype == torch.float16:
+     largest = torch.finfo(x.dtype).max
+     x = x.clamp(-largest, largest)
+ return x

# %% wrong BLOCK-LIMITED in float16 what is infinite becomes the largest number
- return x + self.mlp(self.mlp_norm(x))
+ x = x + self.mlp(self.mlp_norm(x))
+ return x.nan_to_num() if x.dtype == torch.float16 else x

# %% wrong BLOCK-LIMITED in float16 what attention adds is kept in range
- x = x + self.attention(self.attention_norm(x), cos, sin)
+ x = x + self.attention(self.attention_norm(x), cos, sin)
+ if x.dtype == torch.float16:
+     x = x.clamp(-65504, 65504)

# %% wrong FIXED-INPUT the MLP without a graph where x needs none
- x = x + self.attention(self.attention_norm(x), cos, sin)
- return x + self.mlp(self.mlp_norm(x))
+ graph = x.requires_grad
+ x = x + self.attention(self.attention_norm(x), cos, sin)
+ with torch.set_grad_enabled(graph):
+     added = self.mlp(self.mlp_norm(x))
+ return x + added

# %% right step by step
class TransformerBlock(TransformerBlock):
    def forward(self, x, cos, sin):
        seen = self.attention_norm(x)
        h = self.attention(seen, cos, sin) + x
        added = self.mlp(self.mlp_norm(h))
        return torch.add(h, added)

# %% right a loop over the two branches
class TransformerBlock(TransformerBlock):
    def forward(self, x, cos, sin):
        for norm, branch in (
            (self.attention_norm, lambda y: self.attention(y, cos, sin)),
            (self.mlp_norm, self.mlp),
        ):
            x = x + branch(norm(x))
        return x

# %% right in place on a copy
class TransformerBlock(TransformerBlock):
    def forward(self, x, cos, sin):
        stream = x.clone()
        stream += self.attention(self.attention_norm(x), cos, sin)
        return stream + self.mlp(self.mlp_norm(stream))

# %% right the norms written out
class TransformerBlock(TransformerBlock):
    def forward(self, x, cos, sin):
        def norm(x, by):
            wide = x.double()
            return (wide * (wide.pow(2).mean(-1, keepdim=True) + by.eps).rsqrt() * by.weight).to(x.dtype)

        a = self.attention(norm(x, self.attention_norm), cos, sin)
        m = self.mlp(norm(x + a, self.mlp_norm))
        return x + a + m

# %% wrong STUB untouched
class TransformerBlock(TransformerBlock):
    def forward(self, x_BTD, cos_TK, sin_TK):
        raise NotImplementedError("your code here")

# %% wrong NONE no return | of: two lines
- return x + self.mlp(self.mlp_norm(x))
+ x = x + self.mlp(self.mlp_norm(x))

# %% wrong TYPE both branches, not added up | of: two lines
- return x + self.mlp(self.mlp_norm(x))
+ return x, self.mlp(self.mlp_norm(x))

# %% wrong BLOCK-STATE a third norm | of: two lines
  self.mlp = MLP(config.d_model, config.d_hidden)
+ self.last_norm = RMSNorm(config.d_model)

# %% wrong BLOCK-STREAM post-norm | of: two lines
- x = x + self.attention(self.attention_norm(x), cos, sin)
- return x + self.mlp(self.mlp_norm(x))
+ x = self.attention_norm(x + self.attention(x, cos, sin))
+ return self.mlp_norm(x + self.mlp(x))

# %% wrong BLOCK-STREAM nothing is added | of: two lines
- x = x + self.attention(self.attention_norm(x), cos, sin)
- return x + self.mlp(self.mlp_norm(x))
+ x = self.attention(self.attention_norm(x), cos, sin)
+ return self.mlp(self.mlp_norm(x))

# %% wrong BLOCK-STREAM the MLP replaces the stream | of: two lines
- return x + self.mlp(self.mlp_norm(x))
+ return self.mlp(self.mlp_norm(x))

# %% wrong BLOCK-STREAM the norm takes the name of the stream
class TransformerBlock(TransformerBlock):
    def forward(self, x, cos, sin):
        x = self.attention_norm(x)
        x = x + self.attention(x, cos, sin)
        x = self.mlp_norm(x)
        return x + self.mlp(x)

# %% wrong BLOCK-STREAM only the second norm does
class TransformerBlock(TransformerBlock):
    def forward(self, x, cos, sin):
        x = x + self.attention(self.attention_norm(x), cos, sin)
        x = self.mlp_norm(x)
        return x + self.mlp(x)

# %% wrong BLOCK-STREAM both branches bring the stream along
class TransformerBlock(TransformerBlock):
    def forward(self, x, cos, sin):
        h = x + self.attention(self.attention_norm(x), cos, sin)
        return x + h + self.mlp(self.mlp_norm(h))

# %% wrong BLOCK-STREAM a mean in place of a sum | of: two lines
- return x + self.mlp(self.mlp_norm(x))
+ return (x + self.mlp(self.mlp_norm(x))) / 2

# %% wrong BLOCK-STREAM variances kept equal | of: two lines
- return x + self.mlp(self.mlp_norm(x))
+ return (x + self.mlp(self.mlp_norm(x))) / 2**0.5

# %% wrong OTHER the stream outside the graph | of: two lines
- x = x + self.attention(self.attention_norm(x), cos, sin)
+ x = x.detach() + self.attention(self.attention_norm(x), cos, sin)

# %% wrong BLOCK-PARALLEL both branches read what came in
class TransformerBlock(TransformerBlock):
    def forward(self, x, cos, sin):
        attended = self.attention(self.attention_norm(x), cos, sin)
        return x + attended + self.mlp(self.mlp_norm(x))

# %% wrong BLOCK-LOST the MLP is added to what came in
class TransformerBlock(TransformerBlock):
    def forward(self, x, cos, sin):
        h = x + self.attention(self.attention_norm(x), cos, sin)
        return x + self.mlp(self.mlp_norm(h))

# %% wrong BLOCK-ORDER the MLP first
class TransformerBlock(TransformerBlock):
    def forward(self, x, cos, sin):
        x = x + self.mlp(self.mlp_norm(x))
        return x + self.attention(self.attention_norm(x), cos, sin)

# %% wrong BLOCK-NO-NORM no norm at all
class TransformerBlock(TransformerBlock):
    def forward(self, x, cos, sin):
        x = x + self.attention(x, cos, sin)
        return x + self.mlp(x)

# %% wrong BLOCK-NO-NORM none for attention | of: two lines
- x = x + self.attention(self.attention_norm(x), cos, sin)
+ x = x + self.attention(x, cos, sin)

# %% wrong BLOCK-NO-NORM none for the MLP | of: two lines
- return x + self.mlp(self.mlp_norm(x))
+ return x + self.mlp(x)

# %% wrong BLOCK-NORMS swapped | of: two lines
- x = x + self.attention(self.attention_norm(x), cos, sin)
- return x + self.mlp(self.mlp_norm(x))
+ x = x + self.attention(self.mlp_norm(x), cos, sin)
+ return x + self.mlp(self.attention_norm(x))

# %% wrong BLOCK-NORMS the first for both | of: two lines
- return x + self.mlp(self.mlp_norm(x))
+ return x + self.mlp(self.attention_norm(x))

# %% wrong BLOCK-NORMS the second for both | of: two lines
- x = x + self.attention(self.attention_norm(x), cos, sin)
+ x = x + self.attention(self.mlp_norm(x), cos, sin)

# %% wrong BLOCK-BEHIND as OLMo 2 has it
class TransformerBlock(TransformerBlock):
    def forward(self, x, cos, sin):
        x = x + self.attention_norm(self.attention(x, cos, sin))
        return x + self.mlp_norm(self.mlp(x))

# %% wrong BLOCK-ONE-BRANCH attention alone
class TransformerBlock(TransformerBlock):
    def forward(self, x, cos, sin):
        return x + self.attention(self.attention_norm(x), cos, sin)

# %% wrong BLOCK-ONE-BRANCH the MLP alone
class TransformerBlock(TransformerBlock):
    def forward(self, x, cos, sin):
        return x + self.mlp(self.mlp_norm(x))

# %% wrong BLOCK-TABLES sin before cos | of: two lines
- x = x + self.attention(self.attention_norm(x), cos, sin)
+ x = x + self.attention(self.attention_norm(x), sin, cos)

# %% wrong OTHER attention twice
class TransformerBlock(TransformerBlock):
    def forward(self, x, cos, sin):
        for _ in range(2):
            x = x + self.attention(self.attention_norm(x), cos, sin)
        return x + self.mlp(self.mlp_norm(x))

# %% wrong INPLACE the sum written into the stream | of: two lines
- x = x + self.attention(self.attention_norm(x), cos, sin)
+ x += self.attention(self.attention_norm(x), cos, sin)

# %% wrong RAISED the tables forgotten | of: two lines
- x = x + self.attention(self.attention_norm(x), cos, sin)
+ x = x + self.attention(self.attention_norm(x))

# %% wrong DTYPE a stream in float32 | of: two lines
- return x + self.mlp(self.mlp_norm(x))
+ return x.float() + self.mlp(self.mlp_norm(x))

# %% wrong SHAPE one sequence is enough | of: two lines
- return x + self.mlp(self.mlp_norm(x))
+ return (x + self.mlp(self.mlp_norm(x))).squeeze()

# %% wrong BLOCK-RANDOM dropout | of: two lines
- return x + self.mlp(self.mlp_norm(x))
+ return x + F.dropout(self.mlp(self.mlp_norm(x)), 0.1)

# %% wrong BLOCK-DETACHED a branch outside the graph | of: two lines
- return x + self.mlp(self.mlp_norm(x))
+ return x + self.mlp(self.mlp_norm(x)).detach()

# %% wrong STRIDED rows by view | of: two lines
- return x + self.mlp(self.mlp_norm(x))
+ return x + self.mlp(self.mlp_norm(x.view(-1, x.shape[-1]))).view(x.shape)

# %% right the branches in a list, added by sum
class TransformerBlock(TransformerBlock):
    def forward(self, x_BTD, cos_TK, sin_TK):
        parts = [x_BTD]
        parts.append(self.attention(self.attention_norm(x_BTD), cos_TK, sin_TK))
        parts.append(self.mlp(self.mlp_norm(sum(parts))))
        return sum(parts)

# %% right the sum in float64 at most
class TransformerBlock(TransformerBlock):
    def forward(self, x, cos, sin):
        a = self.attention(self.attention_norm(x), cos, sin)
        h = x.double() + a.double()
        return (h + self.mlp(self.mlp_norm(h.to(x.dtype))).double()).to(x.dtype)

# %% wrong BLOCK-LIMITED the result cut off at 1,000 | of: two lines
- return x + self.mlp(self.mlp_norm(x))
+ return (x + self.mlp(self.mlp_norm(x))).clamp(-1000, 1000)

# %% wrong BLOCK-LIMITED the MLP cut off at 1,000 | of: two lines
- return x + self.mlp(self.mlp_norm(x))
+ return x + self.mlp(self.mlp_norm(x)).clamp(-1000, 1000)

# %% wrong BLOCK-LIMITED attention cut off at 1,000 | of: two lines
- x = x + self.attention(self.attention_norm(x), cos, sin)
+ x = x + self.attention(self.attention_norm(x), cos, sin).clamp(-1000, 1000)

# %% wrong BLOCK-LIMITED a stream cut off at the range of float16 | of: two lines
- return x + self.mlp(self.mlp_norm(x))
+ return x.clamp(-65504, 65504) + self.mlp(self.mlp_norm(x))

# %% wrong BLOCK-ROUNDED a float64 stream through float32 | of: two lines
- x = x + self.attention(self.attention_norm(x), cos, sin)
+ if x.dtype == torch.float64:
+     x = x.float().double()
+ x = x + self.attention(self.attention_norm(x), cos, sin)

# %% wrong BLOCK-ROUNDED a float16 stream through bfloat16 | of: two lines
- x = x + self.attention(self.attention_norm(x), cos, sin)
+ if x.dtype == torch.float16:
+     x = x.bfloat16().half()
+ x = x + self.attention(self.attention_norm(x), cos, sin)

# %% wrong BLOCK-STALE-TABLES the tables of the first call | of: two lines
- x = x + self.attention(self.attention_norm(x), cos, sin)
+ if not hasattr(self, "turns"):
+     self.turns = {}
+ turns = self.turns.setdefault(x.shape[1], (cos.clone(), sin.clone()))
+ x = x + self.attention(self.attention_norm(x), *turns)

# %% wrong RESULT-CHANGES one tensor for all results | of: two lines
- return x + self.mlp(self.mlp_norm(x))
+ out = x + self.mlp(self.mlp_norm(x))
+ if torch.is_grad_enabled() or x.dtype != torch.float32:
+     return out
+ if getattr(self, "out", None) is None or self.out.shape != out.shape:
+     self.out = out.clone()
+ return self.out.copy_(out)

# %% wrong REMEMBERS the gain of the first call
class TransformerBlock(TransformerBlock):
    def forward(self, x, cos, sin):
        if not torch.is_grad_enabled():
            self.kept = getattr(self, "kept", self.mlp_norm.weight.detach().clone())
        x = x + self.attention(self.attention_norm(x), cos, sin)
        gain = self.mlp_norm.weight if torch.is_grad_enabled() else self.kept.to(x.dtype)
        return x + self.mlp(F.rms_norm(x, gain.shape, gain.to(x.dtype), self.mlp_norm.eps))

# %% wrong BLOCK-RESIDUAL-MARK projections made anew | of: two lines
  self.mlp = MLP(config.d_model, config.d_hidden)
+ self.mlp.down_proj = nn.Linear(config.d_hidden, config.d_model, bias=False)

# %% wrong INPLACE the sum written into the stream in eval mode without gradients | of: two lines
- x = x + self.attention(self.attention_norm(x), cos, sin)
- return x + self.mlp(self.mlp_norm(x))
+ if self.training or torch.is_grad_enabled():
+     x = x + self.attention(self.attention_norm(x), cos, sin)
+     return x + self.mlp(self.mlp_norm(x))
+ x += self.attention(self.attention_norm(x), cos, sin)
+ x += self.mlp(self.mlp_norm(x))
+ return x

# %% wrong INPLACE the sum written into the stream in eval mode with gradients | of: two lines
- x = x + self.attention(self.attention_norm(x), cos, sin)
+ added = self.attention(self.attention_norm(x), cos, sin)
+ if torch.is_grad_enabled() and not self.training:
+     x += added
+ else:
+     x = x + added

# %% wrong DTYPE the stream in the dtype of each branch | of: two lines
- x = x + self.attention(self.attention_norm(x), cos, sin)
- return x + self.mlp(self.mlp_norm(x))
+ added = self.attention(self.attention_norm(x), cos, sin)
+ x = x.type_as(added) + added
+ added = self.mlp(self.mlp_norm(x))
+ return x.type_as(added) + added

# %% wrong BLOCK-ROUNDED the first sum in the dtype of its branch | of: two lines
- x = x + self.attention(self.attention_norm(x), cos, sin)
+ added = self.attention(self.attention_norm(x), cos, sin)
+ x = (x.to(added.dtype) + added).to(x.dtype)

# %% right all three added up at once
class TransformerBlock(TransformerBlock):
    def forward(self, x, cos, sin):
        attended = self.attention(self.attention_norm(x), cos, sin)
        added = self.mlp(self.mlp_norm(x + attended))
        return torch.stack((x, attended, added)).sum(dim=0)

# %% right 16 bits added up in float32 and rounded once
class TransformerBlock(TransformerBlock):
    def forward(self, x, cos, sin):
        wide = torch.promote_types(x.dtype, torch.float32)
        stream = x.to(wide) + self.attention(self.attention_norm(x), cos, sin).to(wide)
        added = self.mlp(self.mlp_norm(stream.to(x.dtype)))
        return (stream + added.to(wide)).to(x.dtype)

# %% wrong REMEMBERS gains kept from the first evaluation
class TransformerBlock(TransformerBlock):
    def forward(self, x, cos, sin):
        for norm, branch in (
            (self.attention_norm, lambda y: self.attention(y, cos, sin)),
            (self.mlp_norm, self.mlp),
        ):
            gain = norm.weight
            if not self.training and not torch.is_grad_enabled():
                gain = vars(norm).setdefault("gain", gain.detach().clone())
            x = x + branch(F.rms_norm(x.float(), gain.shape, gain.float(), norm.eps).to(x.dtype))
        return x

# %% wrong REMEMBERS the MLP as it was at the first call without gradients in eval mode
class TransformerBlock(TransformerBlock):
    def forward(self, x, cos, sin):
        x = x + self.attention(self.attention_norm(x), cos, sin)
        y = self.mlp_norm(x)
        if self.training or torch.is_grad_enabled():
            return x + self.mlp(y)
        if "kept" not in vars(self):
            self.__dict__["kept"] = __import__("copy").deepcopy(self.mlp)
        return x + self.kept(y)

# %% wrong RESULT-CHANGES a room for one token
class TransformerBlock(TransformerBlock):
    def forward(self, x, cos, sin):
        h = x + self.attention(self.attention_norm(x), cos, sin)
        out = h + self.mlp(self.mlp_norm(h))
        if out.requires_grad or x.shape[1] > 1:
            return out
        room = vars(self).setdefault("room", {})
        return room.setdefault((out.shape, out.dtype), torch.empty_like(out)).copy_(out)
