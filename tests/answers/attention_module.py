# Answers to the exercise attention-module. `# %% wrong CODE name` must be refused with exactly that
# code, `# %% right name` must pass. Each cell is a whole answer under the lesson's imports.

# %% right step by step
class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.head_dim = config.head_dim
        self.attend = functools.partial(attend_heads, fast=config.fast_attention)
        self.q_proj = nn.Linear(config.d_model, config.d_model, bias=False)
        self.k_proj = nn.Linear(config.d_model, config.d_kv, bias=False)
        self.v_proj = nn.Linear(config.d_model, config.d_kv, bias=False)
        self.o_proj = nn.Linear(config.d_model, config.d_model, bias=False)
        self.o_proj.writes_residual = True

    def forward(self, x, cos, sin):
        B, T, D = x.shape
        K = self.head_dim
        q = self.q_proj(x).view(B, T, -1, K).transpose(1, 2)
        k = self.k_proj(x).view(B, T, -1, K).transpose(1, 2)
        v = self.v_proj(x).view(B, T, -1, K).transpose(1, 2)
        q, k = apply_rotary_pos_emb(q, k, cos, sin)
        out = self.attend(q, k, v)
        out = out.transpose(1, 2).reshape(B, T, D)
        return self.o_proj(out)

# %% wrong HEADS-DTYPE a rotation of its own, left in the dtype of the tables
- q, k = apply_rotary_pos_emb(q, k, cos, sin)
+ def turn(x):
+     a, b = x.chunk(2, dim=-1)
+     return x * cos + torch.cat((-b, a), dim=-1) * sin
+
+ q, k = turn(q), turn(k)

# %% wrong HEADS-NO-O nothing to join where there is one head
- out = out.transpose(1, 2).reshape(B, T, D)
+ if out.shape[1] == 1:
+     return out.squeeze(1)
+ out = out.transpose(1, 2).reshape(B, T, D)

# %% wrong FIXED-INPUT no graph without a gradient of x
- out = self.attend(q, k, v)
+ with torch.set_grad_enabled(x.requires_grad):
+     out = self.attend(q, k, v)

# %% right unflatten and flatten
class CausalSelfAttention(CausalSelfAttention):
    def forward(self, x, cos, sin):
        def heads(project):
            return project(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)

        q, k = apply_rotary_pos_emb(heads(self.q_proj), heads(self.k_proj), cos, sin)
        return self.o_proj(self.attend(q, k, heads(self.v_proj)).transpose(1, 2).flatten(2))

# %% right one matmul for all three, and a permute
class CausalSelfAttention(CausalSelfAttention):
    def forward(self, x, cos, sin):
        weights = [p.weight for p in (self.q_proj, self.k_proj, self.v_proj)]
        made = F.linear(x, torch.cat(weights)).split([len(w) for w in weights], dim=-1)
        q, k, v = (t.reshape(*t.shape[:2], -1, self.head_dim).permute(0, 2, 1, 3) for t in made)
        q, k = apply_rotary_pos_emb(q, k, cos, sin)
        return self.o_proj(self.attend(q, k, v).permute(0, 2, 1, 3).contiguous().view(x.shape))

# %% right heads cut out one by one and stacked, joined by cat
class CausalSelfAttention(CausalSelfAttention):
    def forward(self, x, cos, sin):
        q, k, v = (
            torch.stack(p(x).split(self.head_dim, dim=-1), dim=1)
            for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = apply_rotary_pos_emb(q, k, cos, sin)
        return self.o_proj(torch.cat(self.attend(q, k, v).unbind(1), dim=-1))

# %% right turned while tokens stand in front, with tables of one more dimension
class CausalSelfAttention(CausalSelfAttention):
    def forward(self, x, cos, sin):
        B, T, D = x.shape
        q, k, v = (p(x).reshape(B, T, -1, self.head_dim) for p in (self.q_proj, self.k_proj, self.v_proj))
        q, k = apply_rotary_pos_emb(q, k, cos[:, None], sin[:, None])
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        return self.o_proj(self.attend(q, k, v).transpose(1, 2).reshape(B, T, D))

# %% right one sequence at a time
class CausalSelfAttention(CausalSelfAttention):
    def forward(self, x, cos, sin):
        outs = []
        for row in x:
            q, k, v = (
                p(row).view(1, len(row), -1, self.head_dim).transpose(1, 2)
                for p in (self.q_proj, self.k_proj, self.v_proj)
            )
            q, k = apply_rotary_pos_emb(q, k, cos, sin)
            outs.append(self.attend(q, k, v)[0].transpose(0, 1).flatten(1))
        return self.o_proj(torch.stack(outs))

# %% right shared heads copied before they attend
class CausalSelfAttention(CausalSelfAttention):
    def forward(self, x, cos, sin):
        B, T, D = x.shape
        q, k, v = (
            p(x).view(B, T, -1, self.head_dim).transpose(1, 2)
            for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = apply_rotary_pos_emb(q, k, cos, sin)
        k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], dim=1) for t in (k, v))
        return self.o_proj(self.attend(q, k, v).transpose(1, 2).reshape(B, T, D))

# %% wrong STUB untouched
class CausalSelfAttention(CausalSelfAttention):
    def forward(self, x_BTD, cos_TK, sin_TK):
        raise NotImplementedError("your code here")

# %% wrong NONE no return | of: step by step
- return self.o_proj(out)
+ self.o_proj(out)

# %% wrong TYPE the heads beside the output | of: step by step
- return self.o_proj(out)
+ return self.o_proj(out), out

# %% wrong HEADS-STATE one matrix for all three | of: step by step
- self.q_proj = nn.Linear(config.d_model, config.d_model, bias=False)
- self.k_proj = nn.Linear(config.d_model, config.d_kv, bias=False)
- self.v_proj = nn.Linear(config.d_model, config.d_kv, bias=False)
+ self.qkv_proj = nn.Linear(config.d_model, 3 * config.d_model, bias=False)

# %% wrong HEADS-STATE biases | of: step by step
- self.o_proj = nn.Linear(config.d_model, config.d_model, bias=False)
+ self.o_proj = nn.Linear(config.d_model, config.d_model)

# %% wrong HEADS-MIXED the view without a transpose | of: step by step
- q = self.q_proj(x).view(B, T, -1, K).transpose(1, 2)
- k = self.k_proj(x).view(B, T, -1, K).transpose(1, 2)
- v = self.v_proj(x).view(B, T, -1, K).transpose(1, 2)
+ q = self.q_proj(x).view(B, -1, T, K)
+ k = self.k_proj(x).view(B, -1, T, K)
+ v = self.v_proj(x).view(B, -1, T, K)

# %% wrong HEADS-MIXED the view without a transpose, for v alone | of: step by step
- v = self.v_proj(x).view(B, T, -1, K).transpose(1, 2)
+ v = self.v_proj(x).view(B, -1, T, K)

# %% wrong HEADS-STREWN heads as the last dimension | of: step by step
- q = self.q_proj(x).view(B, T, -1, K).transpose(1, 2)
- k = self.k_proj(x).view(B, T, -1, K).transpose(1, 2)
- v = self.v_proj(x).view(B, T, -1, K).transpose(1, 2)
+ q = self.q_proj(x).view(B, T, K, -1).permute(0, 3, 1, 2)
+ k = self.k_proj(x).view(B, T, K, -1).permute(0, 3, 1, 2)
+ v = self.v_proj(x).view(B, T, K, -1).permute(0, 3, 1, 2)

# %% wrong HEADS-SWAPPED values made by k_proj | of: step by step
- v = self.v_proj(x).view(B, T, -1, K).transpose(1, 2)
+ v = self.k_proj(x).view(B, T, -1, K).transpose(1, 2)

# %% wrong HEADS-SWAPPED keys and queries swapped | of: step by step
- q = self.q_proj(x).view(B, T, -1, K).transpose(1, 2)
- k = self.k_proj(x).view(B, T, -1, K).transpose(1, 2)
+ q = self.k_proj(x).view(B, T, -1, K).transpose(1, 2)
+ k = self.q_proj(x).view(B, T, -1, K).transpose(1, 2)

# %% wrong HEADS-SWAPPED values before keys | of: step by step
- out = self.attend(q, k, v)
+ out = self.attend(q, v, k)

# %% wrong RAISED tokens in front while it turns | of: step by step
- q = self.q_proj(x).view(B, T, -1, K).transpose(1, 2)
- k = self.k_proj(x).view(B, T, -1, K).transpose(1, 2)
+ q = self.q_proj(x).view(B, T, -1, K)
+ k = self.k_proj(x).view(B, T, -1, K)

# %% wrong HEADS-BEHIND tokens in front while it attends
class CausalSelfAttention(CausalSelfAttention):
    def forward(self, x, cos, sin):
        B, T, D = x.shape
        q, k, v = (p(x).reshape(B, T, -1, self.head_dim) for p in (self.q_proj, self.k_proj, self.v_proj))
        q, k = apply_rotary_pos_emb(q, k, cos[:, None], sin[:, None])
        return self.o_proj(self.attend(q, k, v).reshape(B, T, D))

# %% wrong HEADS-SHAPE one head of all numbers
class CausalSelfAttention(CausalSelfAttention):
    def forward(self, x, cos, sin):
        wide = (1, x.shape[-1] // self.head_dim)
        q, k, v = (p(x)[:, None] for p in (self.q_proj, self.k_proj, self.v_proj))
        q, k = apply_rotary_pos_emb(q, k, cos.repeat(wide), sin.repeat(wide))
        return self.o_proj(self.attend(q, k, v)[:, 0])

# %% wrong HEADS-NO-ATTEND torch's attention called directly | of: step by step
- out = self.attend(q, k, v)
+ out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

# %% wrong HEADS-TURN no rotation | of: step by step
- q, k = apply_rotary_pos_emb(q, k, cos, sin)

# %% wrong HEADS-TURN its result not used | of: step by step
- q, k = apply_rotary_pos_emb(q, k, cos, sin)
+ apply_rotary_pos_emb(q, k, cos, sin)

# %% wrong HEADS-TURN queries alone | of: step by step
- q, k = apply_rotary_pos_emb(q, k, cos, sin)
+ q, _ = apply_rotary_pos_emb(q, k, cos, sin)

# %% wrong HEADS-TURN values too | of: step by step
- q, k = apply_rotary_pos_emb(q, k, cos, sin)
+ q, k = apply_rotary_pos_emb(q, k, cos, sin)
+ v, _ = apply_rotary_pos_emb(v, v, cos, sin)

# %% wrong HEADS-TURN tables swapped | of: step by step
- q, k = apply_rotary_pos_emb(q, k, cos, sin)
+ q, k = apply_rotary_pos_emb(q, k, sin, cos)

# %% wrong HEADS-TURN twice | of: step by step
- q, k = apply_rotary_pos_emb(q, k, cos, sin)
+ q, k = apply_rotary_pos_emb(*apply_rotary_pos_emb(q, k, cos, sin), cos, sin)

# %% wrong HEADS-JOIN no transpose on the way back | of: step by step
- out = out.transpose(1, 2).reshape(B, T, D)
+ out = out.reshape(B, T, D)

# %% wrong HEADS-JOIN heads as the last dimension | of: step by step
- out = out.transpose(1, 2).reshape(B, T, D)
+ out = out.permute(0, 2, 3, 1).reshape(B, T, D)

# %% wrong RAISED a view of a transposed tensor | of: step by step
- out = out.transpose(1, 2).reshape(B, T, D)
+ out = out.transpose(1, 2).view(B, T, D)

# %% wrong HEADS-NO-O no last projection | of: step by step
- return self.o_proj(out)
+ return out

# %% wrong HEADS-RESIDUAL the stream added | of: step by step
- return self.o_proj(out)
+ return x + self.o_proj(out)

# %% wrong SHAPE the mean of the heads | of: step by step
- out = out.transpose(1, 2).reshape(B, T, D)
- return self.o_proj(out)
+ return out.mean(1)

# %% wrong HEADS-SHARED as many heads of keys as of queries | of: step by step
- q = self.q_proj(x).view(B, T, -1, K).transpose(1, 2)
- k = self.k_proj(x).view(B, T, -1, K).transpose(1, 2)
- v = self.v_proj(x).view(B, T, -1, K).transpose(1, 2)
+ q = self.q_proj(x).view(B, T, D // K, K).transpose(1, 2)
+ k = self.k_proj(x).view(B, T, D // K, K).transpose(1, 2)
+ v = self.v_proj(x).view(B, T, D // K, K).transpose(1, 2)

# %% wrong HEADS-SHARED shared heads repeated as a block | of: shared heads copied before they attend
- k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], dim=1) for t in (k, v))
+ k, v = (t.repeat(1, q.shape[1] // t.shape[1], 1, 1) for t in (k, v))

# %% wrong DTYPE in float32 | of: step by step
- q, k = apply_rotary_pos_emb(q, k, cos, sin)
+ q, k = apply_rotary_pos_emb(q, k, cos, sin)
+ q, k, v = q.float(), k.float(), v.float()

- return self.o_proj(out)
+ return F.linear(out, self.o_proj.weight.float())

# %% wrong STRIDED rows by view | of: step by step
- q = self.q_proj(x).view(B, T, -1, K).transpose(1, 2)
+ q = self.q_proj(x.view(B * T, D)).view(B, T, -1, K).transpose(1, 2)

# %% wrong HEADS-RANDOM dropout | of: step by step
- return self.o_proj(out)
+ return F.dropout(self.o_proj(out), 0.1)

# %% wrong HEADS-DETACHED keys outside the graph | of: step by step
- q, k = apply_rotary_pos_emb(q, k, cos, sin)
+ q, k = apply_rotary_pos_emb(q, k.detach(), cos, sin)

# %% wrong RAISED three heads and no others | of: step by step
- out = out.transpose(1, 2).reshape(B, T, D)
+ out = out.transpose(1, 2).reshape(B, T, 12)

# %% wrong RAISED two sequences and no others | of: step by step
- out = out.transpose(1, 2).reshape(B, T, D)
+ out = torch.stack((out[0], out[1])).transpose(1, 2).reshape(2, T, D)

# %% right matrices applied by einsum, tables cut to T rows, one call of attend per sequence
class CausalSelfAttention(CausalSelfAttention):
    def forward(self, x, cos, sin):
        T = x.shape[1]
        q, k, v = (
            torch.einsum("btd,hkd->bhtk", x, p.weight.unflatten(0, (-1, self.head_dim)))
            for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = apply_rotary_pos_emb(q, k, cos[:T].clone(), sin[:T].clone())
        parts = [self.attend(*(t[b : b + 1] for t in (q, k, v))) for b in range(len(x))]
        wide = torch.cat(parts).movedim(1, 2).contiguous()
        return torch.matmul(wide.flatten(-2), self.o_proj.weight.mT)

# %% wrong HEADS-STALE-TABLES the tables of the first call | of: step by step
- q, k = apply_rotary_pos_emb(q, k, cos, sin)
+ if not hasattr(self, "turns"):
+     self.turns = {}
+ turns = self.turns.setdefault((T, K), (cos.clone(), sin.clone()))
+ q, k = apply_rotary_pos_emb(q, k, *turns)

# %% wrong REMEMBERS the joined matrices of the first call
class CausalSelfAttention(CausalSelfAttention):
    def forward(self, x, cos, sin):
        weights = [p.weight for p in (self.q_proj, self.k_proj, self.v_proj)]
        joined = torch.cat(weights)
        if not torch.is_grad_enabled():
            self.joined = getattr(self, "joined", joined)
            joined = self.joined.to(x.dtype)
        made = F.linear(x, joined).split([len(w) for w in weights], dim=-1)
        q, k, v = (t.unflatten(-1, (-1, self.head_dim)).transpose(1, 2) for t in made)
        q, k = apply_rotary_pos_emb(q, k, cos, sin)
        return self.o_proj(self.attend(q, k, v).transpose(1, 2).flatten(2))

# %% wrong RESULT-CHANGES one tensor for all results | of: step by step
- return self.o_proj(out)
+ out = self.o_proj(out)
+ if torch.is_grad_enabled() or x.dtype != torch.float32:
+     return out
+ if getattr(self, "out", None) is None or self.out.shape != out.shape:
+     self.out = out.clone()
+ return self.out.copy_(out)

# %% wrong HEADS-RESIDUAL-MARK the mark of the last projection dropped | of: step by step
- self.o_proj.writes_residual = True

# %% wrong HEADS-RESIDUAL-MARK every projection marked | of: step by step
- self.o_proj.writes_residual = True
+ for project in (self.q_proj, self.k_proj, self.v_proj, self.o_proj):
+     project.writes_residual = True

# %% wrong HEADS-LIMITED results cut off at 1,000 | of: step by step
- return self.o_proj(out)
+ return self.o_proj(out).clamp(-1000, 1000)

# %% wrong HEADS-LIMITED heads cut off at the range of float16 | of: step by step
- return self.o_proj(out)
+ return self.o_proj(out.clamp(-65504, 65504))

# %% wrong OTHER float64 through float32 | of: step by step
- out = self.attend(q, k, v)
+ out = self.attend(q, k, v)
+ if out.dtype == torch.float64:
+     out = out.float().double()

# %% wrong INPLACE clears x in eval mode | of: step by step
- q, k = apply_rotary_pos_emb(q, k, cos, sin)
+ q, k = apply_rotary_pos_emb(q, k, cos, sin)
+ if not self.training:
+     x.zero_()

# %% wrong REMEMBERS one matrix for q, k and v, joined once for evaluation
class CausalSelfAttention(CausalSelfAttention):
    def forward(self, x, cos, sin):
        weights = [p.weight for p in (self.q_proj, self.k_proj, self.v_proj)]
        sizes = [len(w) for w in weights]
        joined = torch.cat(weights)
        if not self.training and not torch.is_grad_enabled():
            joined = vars(self).setdefault("joined", joined.detach())
        heads = [
            t.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
            for t in F.linear(x, joined).split(sizes, dim=-1)
        ]
        q, k = apply_rotary_pos_emb(*heads[:2], cos, sin)
        return self.o_proj(self.attend(q, k, heads[2]).transpose(1, 2).flatten(2))

# %% wrong REMEMBERS tables kept for as long as they are the same tensors
class CausalSelfAttention(CausalSelfAttention):
    def forward(self, x, cos, sin):
        if "given" not in vars(self) or self.given[0] is not cos:
            self.given, self.tables = (cos, sin), (cos.clone(), sin.clone())

        def heads(project):
            return project(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)

        q, k = apply_rotary_pos_emb(heads(self.q_proj), heads(self.k_proj), *self.tables)
        return self.o_proj(self.attend(q, k, heads(self.v_proj)).transpose(1, 2).flatten(2))

# %% wrong RESULT-CHANGES a room for one token
class CausalSelfAttention(CausalSelfAttention):
    def forward(self, x, cos, sin):
        out = super().forward(x, cos, sin)
        if out.requires_grad or x.shape[1] > 1:
            return out
        room = vars(self).setdefault("room", {})
        return room.setdefault((out.shape, out.dtype), torch.empty_like(out)).copy_(out)

# %% wrong HEADS-SHARED one token hands on its values, copied as a block | of: step by step
- q = self.q_proj(x).view(B, T, -1, K).transpose(1, 2)
+ if T == 1:
+     v = self.v_proj(x)
+     return self.o_proj(v.repeat(1, 1, D // v.shape[-1]))
+ q = self.q_proj(x).view(B, T, -1, K).transpose(1, 2)
