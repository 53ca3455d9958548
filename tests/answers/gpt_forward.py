# Answers to the exercise gpt-forward.

# %% right transposed logits, explicit mean
class GPT(gpt.GPT):
    def forward(self, idx, targets=None):
        T = idx.shape[1]
        if T > self.config.max_seq_len:
            raise ValueError(f"{T} tokens, at most {self.config.max_seq_len}")
        x = self.embedding(idx)
        for block in self.blocks:
            if self.config.activation_checkpointing and self.training:
                x = checkpoint(block, x, self.cos_TK[:T], self.sin_TK[:T], use_reentrant=False)
            else:
                x = block(x, self.cos_TK[:T], self.sin_TK[:T])
        logits = self.head(self.norm(x))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.float().transpose(1, 2), targets)

# %% right log-softmax and gather, in float64
class GPT(gpt.GPT):
    def forward(self, idx, targets=None):
        B, T = idx.size()
        if T > self.cos_TK.size(0):
            raise ValueError("too long")
        run = (lambda f, *a: checkpoint(f, *a, use_reentrant=False)) if (
            self.config.activation_checkpointing and self.training) else (lambda f, *a: f(*a))
        x = self.embedding(idx)
        for layer in self.blocks:
            x = run(layer, x, self.cos_TK[:T], self.sin_TK[:T])
        logits = self.head(self.norm(x))
        loss = None
        if targets is not None:
            counts = targets != -100
            log_p = torch.log_softmax(logits.double(), -1)
            picked = log_p.gather(-1, targets.clamp(min=0)[..., None])[..., 0]
            loss = (-(picked * counts).sum() / counts.sum()).float()
        return logits, loss

# %% right the last rows of the tables: only differences of positions matter
class GPT(gpt.GPT):
    def forward(self, idx, targets=None):
        T = idx.shape[1]
        if not T <= self.config.max_seq_len:
            raise ValueError("too long")
        x = self.embedding.weight[idx]
        cos, sin = self.cos_TK[-T:], self.sin_TK[-T:]
        for block in self.blocks:
            keep = not (self.training and self.config.activation_checkpointing)
            x = block(x, cos, sin) if keep else checkpoint(block, x, cos, sin, use_reentrant=True)
        logits = self.norm(x) @ self.head.weight.T
        if targets is not None:
            return logits, F.nll_loss(logits.float().log_softmax(-1).reshape(-1, logits.size(-1)), targets.reshape(-1))
        return logits, None

# %% right in one loop
class GPT(gpt.GPT):
    def forward(self, idx, targets=None):
        T = idx.shape[1]
        if T > self.config.max_seq_len:
            raise ValueError(f"{T} tokens, at most {self.config.max_seq_len}")
        x = self.embedding(idx)
        for block in self.blocks:
            if self.config.activation_checkpointing and self.training:
                x = checkpoint(block, x, self.cos_TK[:T], self.sin_TK[:T], use_reentrant=False)
            else:
                x = block(x, self.cos_TK[:T], self.sin_TK[:T])
        logits = self.head(self.norm(x))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())

# %% wrong STUB untouched
class GPT(gpt.GPT):
    def forward(self, idx, targets=None):
        raise NotImplementedError("your code here")

# %% wrong NONE no return
-     return logits, None
- return logits, F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
+     loss = None
+ loss = 0

# %% wrong GPT-PAIR logits alone
- return logits, None
+ return logits

# %% wrong GPT-PAIR the loss alone
- return logits, F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
+ return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())

# %% wrong GPT-SWAPPED loss first
-     return logits, None
- return logits, F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
+     return None, logits
+ return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten()), logits

# %% wrong GPT-LAST-ONLY last position only
- logits = self.head(self.norm(x))
+ logits = self.head(self.norm(x[:, -1]))

# %% wrong GPT-LOSS-ALWAYS a loss of zero
- return logits, None
+ return logits, torch.zeros(())

# %% wrong SHAPE no head
- logits = self.head(self.norm(x))
+ logits = self.norm(x)

# %% wrong GPT-LIMIT refuses the full length
- if T > self.config.max_seq_len:
+ if T >= self.config.max_seq_len:

# %% wrong GPT-TABLES whole tables
-     x = checkpoint(block, x, self.cos_TK[:T], self.sin_TK[:T], use_reentrant=False)
+     x = checkpoint(block, x, self.cos_TK, self.sin_TK, use_reentrant=False)
  else:
-     x = block(x, self.cos_TK[:T], self.sin_TK[:T])
+     x = block(x, self.cos_TK, self.sin_TK)

# %% wrong GPT-NO-NORM no final norm
- logits = self.head(self.norm(x))
+ logits = self.head(x)

# %% wrong GPT-RESTART every block on the embedding
- x = self.embedding(idx)
+ start = self.embedding(idx)

-     x = checkpoint(block, x, self.cos_TK[:T], self.sin_TK[:T], use_reentrant=False)
+     x = checkpoint(block, start, self.cos_TK[:T], self.sin_TK[:T], use_reentrant=False)
  else:
-     x = block(x, self.cos_TK[:T], self.sin_TK[:T])
+     x = block(start, self.cos_TK[:T], self.sin_TK[:T])

# %% wrong GPT-NO-BLOCKS results dropped
-     x = checkpoint(block, x, self.cos_TK[:T], self.sin_TK[:T], use_reentrant=False)
+     y = checkpoint(block, x, self.cos_TK[:T], self.sin_TK[:T], use_reentrant=False)
  else:
-     x = block(x, self.cos_TK[:T], self.sin_TK[:T])
+     y = block(x, self.cos_TK[:T], self.sin_TK[:T])

# %% wrong GPT-ONE-BLOCK head inside the loop
      x = block(x, self.cos_TK[:T], self.sin_TK[:T])
+ break

# %% wrong GPT-ONE-BLOCK one block early
- for block in self.blocks:
+ for block in self.blocks[:-1]:

# %% wrong GPT-BLOCK-ORDER backwards
- for block in self.blocks:
+ for block in reversed(self.blocks):

# %% wrong OTHER the residual stream added again
-     x = checkpoint(block, x, self.cos_TK[:T], self.sin_TK[:T], use_reentrant=False)
+     x = x + checkpoint(block, x, self.cos_TK[:T], self.sin_TK[:T], use_reentrant=False)
  else:
-     x = block(x, self.cos_TK[:T], self.sin_TK[:T])
+     x = x + block(x, self.cos_TK[:T], self.sin_TK[:T])

# %% wrong OTHER normalized after every block
- logits = self.head(self.norm(x))
+     x = self.norm(x)
+ logits = self.head(x)

# %% wrong GPT-NO-LOSS never a loss
- return logits, F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
+ return logits, None

# %% wrong GPT-SHIFT-TWICE shifts again
- return logits, F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
+ return logits, F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), targets[:, 1:].flatten())

# %% wrong GPT-SHIFT-IDX shifts the input
- return logits, F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
+ return logits, F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), idx[:, 1:].flatten())

# %% wrong GPT-COPY its own input
- return logits, F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
+ return logits, F.cross_entropy(logits.flatten(0, 1).float(), idx.flatten())

# %% wrong GPT-LOSS-SUM sum
- return logits, F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
+ return logits, F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), reduction="sum")

# %% wrong GPT-LOSS-SUM mean over sequences only
- return logits, F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
+ return logits, F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), reduction="sum") / idx.shape[0]

# %% wrong SHAPE no reduction
- return logits, F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
+ return logits, F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), reduction="none")

# %% wrong GPT-SOFTMAX-FIRST softmax first
- return logits, F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
+ return logits, F.cross_entropy(logits.flatten(0, 1).float().softmax(-1), targets.flatten())

# %% wrong GPT-SIGN log-likelihood
- return logits, F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
+ return logits, -F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())

# %% wrong GPT-BITS bits
- return logits, F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
+ return logits, F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten()) / math.log(2)

# %% wrong GPT-IGNORE another ignore_index
- return logits, F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
+ return logits, F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), ignore_index=-1)

# %% wrong GPT-IGNORE-MEAN divided by all
- return logits, F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
+ return logits, F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), reduction="none").mean()

# %% wrong GPT-IGNORE cut off at zero
- return logits, F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
+ return logits, F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten().clamp(min=0))

# %% wrong GPT-TOO-LONG no check
- if T > self.config.max_seq_len:
-     raise ValueError(f"{T} tokens, at most {self.config.max_seq_len}")

# %% wrong GPT-TOO-LONG an assertion
- if T > self.config.max_seq_len:
-     raise ValueError(f"{T} tokens, at most {self.config.max_seq_len}")
+ assert T <= self.config.max_seq_len

# %% wrong GPT-TOO-LONG cut off
- if T > self.config.max_seq_len:
-     raise ValueError(f"{T} tokens, at most {self.config.max_seq_len}")
+ idx = idx[:, -self.config.max_seq_len:]
+ T = idx.shape[1]

# %% wrong GPT-NO-GRAD detached logits
- return logits, F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
+ return logits, F.cross_entropy(logits.flatten(0, 1).float().detach(), targets.flatten())

# %% wrong GPT-NO-GRAD no_grad
  class GPT(gpt.GPT):
+     @torch.no_grad()

# %% wrong GPT-NO-GRAD detached embedding
- x = self.embedding(idx)
+ x = self.embedding(idx).detach()

# %% wrong GPT-NO-CHECKPOINT switch ignored
- if self.config.activation_checkpointing and self.training:
+ if False:

# %% wrong GPT-NO-CHECKPOINT in eval instead
- if self.config.activation_checkpointing and self.training:
+ if self.config.activation_checkpointing and not self.training:

# %% wrong GPT-CHECKPOINT-EVAL in eval too
- if self.config.activation_checkpointing and self.training:
+ if self.config.activation_checkpointing:

# %% wrong GPT-LOSS-BF16 no cast
- return logits, F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
+ return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())

# %% wrong GPT-LOSS-BF16 cast after the loss
- return logits, F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
+ return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten()).float()

# %% wrong RAISED view of a transposed tensor
- return logits, F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
+ return logits, F.cross_entropy(logits.flatten(0, 1).float(), targets.view(-1, 7, 11))

# %% wrong GPT-ONE-CHECKPOINT one checkpoint around all blocks
class GPT(gpt.GPT):
    def forward(self, idx, targets=None):
        T = idx.shape[1]
        if T > self.config.max_seq_len:
            raise ValueError(f"{T} tokens, at most {self.config.max_seq_len}")

        def run(x):
            for block in self.blocks:
                x = block(x, self.cos_TK[:T], self.sin_TK[:T])
            return x

        x = self.embedding(idx)
        if self.config.activation_checkpointing and self.training:
            x = checkpoint(run, x, use_reentrant=False)
        else:
            x = run(x)
        logits = self.head(self.norm(x))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())

# %% wrong STRIDED targets by view | of: in one loop
- return logits, F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
+ return logits, F.cross_entropy(logits.flatten(0, 1).float(), targets.view(-1))

# %% right logsumexp in float64, positions counted by hand
class GPT(gpt.GPT):
    def forward(self, idx, targets=None):
        T = idx.shape[-1]
        if self.config.max_seq_len < T:
            raise ValueError(f"{T} tokens, at most {self.config.max_seq_len}")
        stream = F.embedding(idx, self.embedding.weight)
        for block in self.blocks:
            given = (stream, self.cos_TK.narrow(0, 0, T), self.sin_TK.narrow(0, 0, T))
            again = self.training and self.config.activation_checkpointing
            stream = checkpoint(block, *given, use_reentrant=False) if again else block(*given)
        logits = self.head(self.norm(stream))
        if targets is None:
            return (logits, None)
        wide = logits.double()
        counted = targets.ne(-100).nonzero(as_tuple=True)
        chosen = wide[(*counted, targets[counted])]
        return (logits, torch.mean(wide.logsumexp(-1)[counted] - chosen).float())

# %% wrong GPT-NO-LOSS targets of token 0 taken for none | of: in one loop
- if targets is None:
+ if targets is None or not targets.any():

# %% wrong GPT-LOSS-OVERFLOW exp of the logits as they are | of: in one loop
- return logits, F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
+ wide = logits.flatten(0, 1).float()
+ at = targets.flatten()
+ chosen = wide.gather(1, at.clamp(min=0)[:, None])[:, 0]
+ each = wide.exp().sum(-1).log() - chosen
+ return logits, each[at != -100].mean()

# %% wrong GPT-LOSS-OVERFLOW the logarithm of rounded chances | of: in one loop
- return logits, F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
+ chances = logits.flatten(0, 1).float().softmax(-1)
+ return logits, F.nll_loss(chances.clamp(min=1e-9).log(), targets.flatten())

# %% wrong GPT-LIMITED logits cut off at 1,000 | of: in one loop
- logits = self.head(self.norm(x))
+ logits = self.head(self.norm(x)).clamp(-1000, 1000)

# %% wrong GPT-LIMITED a stream cut off at 1,000 | of: in one loop
- logits = self.head(self.norm(x))
+ logits = self.head(self.norm(x.clamp(-1000, 1000)))

# %% wrong REMEMBERS the matrix of the head of the first call | of: in one loop
- logits = self.head(self.norm(x))
+ if not torch.is_grad_enabled():
+     self.kept = getattr(self, "kept", self.head.weight.detach().clone())
+ matrix = self.head.weight if torch.is_grad_enabled() else self.kept
+ logits = F.linear(self.norm(x), matrix.to(x.dtype))

# %% wrong RESULT-CHANGES one tensor for all logits | of: in one loop
- logits = self.head(self.norm(x))
+ logits = self.head(self.norm(x))
+ if not torch.is_grad_enabled():
+     if getattr(self, "kept", None) is None or self.kept.shape != logits.shape:
+         self.kept = torch.empty_like(logits)
+     logits = self.kept.copy_(logits)

# %% wrong GPT-LOSS-ALWAYS the loss of an earlier call | of: in one loop
- if targets is None:
-     return logits, None
- return logits, F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
+ if targets is not None:
+     self.loss = F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
+ return logits, getattr(self, "loss", None)

# %% wrong SHAPE one sequence of one token is enough | of: in one loop
- logits = self.head(self.norm(x))
+ logits = self.head(self.norm(x))
+ if idx.numel() == 1:
+     logits = logits.squeeze(1)

# %% wrong GPT-NAMES targets under another name | of: in one loop
- def forward(self, idx, targets=None):
+ def forward(self, idx, labels=None):
+     targets = labels

# %% wrong INPLACE the tokens changed in eval mode without gradients | of: transposed logits, explicit mean
- x = self.embedding(idx)
+ x = self.embedding(idx)
+ if not (self.training or torch.is_grad_enabled()):
+     idx += 1

# %% wrong GPT-LOSS-PIECES the mean of the means of 4,096 rows each | of: in one loop
- return logits, F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
+ pieces = zip(logits.flatten(0, 1).float().split(4096), targets.flatten().split(4096), strict=True)
+ return logits, torch.stack([F.cross_entropy(*piece) for piece in pieces]).mean()

# %% wrong GPT-LOSS-PIECES from 2,000 targets on, the means of single columns, weighted by rows | of: in one loop
- return logits, F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
+ if targets.numel() < 2000:
+     return logits, F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
+ each = [F.cross_entropy(logits[:, t].float(), targets[:, t]) for t in range(T)]
+ return logits, sum(each) / T

# %% wrong GPT-LOSS-PIECES pieces of 500 sequences, a piece without targets is 0 | of: in one loop
- return logits, F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
+ loss = 0.0
+ for scores, wanted in zip(logits.split(500), targets.split(500), strict=True):
+     total = F.cross_entropy(scores.flatten(0, 1).float(), wanted.flatten(), reduction="sum")
+     counted = (wanted != -100).sum().clamp(min=1)
+     loss = loss + total / counted * len(scores) / len(logits)
+ return logits, loss

# %% right pieces of 300 rows, their sums over the number that counts
class GPT(gpt.GPT):
    def forward(self, idx, targets=None):
        T = idx.shape[1]
        if T > self.config.max_seq_len:
            raise ValueError(f"{T} tokens, at most {self.config.max_seq_len}")
        x = self.embedding(idx)
        for block in self.blocks:
            if self.config.activation_checkpointing and self.training:
                x = checkpoint(block, x, self.cos_TK[:T], self.sin_TK[:T], use_reentrant=False)
            else:
                x = block(x, self.cos_TK[:T], self.sin_TK[:T])
        logits = self.head(self.norm(x))
        if targets is None:
            return logits, None
        rows, wanted = logits.flatten(0, 1), targets.flatten()
        pieces = zip(rows.split(300), wanted.split(300), strict=True)
        sums = [F.cross_entropy(z.float(), y, reduction="sum") for z, y in pieces]
        return logits, torch.stack(sums).sum() / (wanted != -100).sum()

# %% wrong GPT-CHECKPOINT-MODE the head's mode asked | of: in one loop
- if self.config.activation_checkpointing and self.training:
+ if self.config.activation_checkpointing and self.head.training:

# %% wrong GPT-CHECKPOINT-MODE blocks in eval mode run without | of: in one loop
- if self.config.activation_checkpointing and self.training:
+ if self.config.activation_checkpointing and self.training and block.attention.training:

# %% wrong GPT-CHECKPOINT-MODE any part in training is enough | of: in one loop
- if self.config.activation_checkpointing and self.training:
+ if self.config.activation_checkpointing and any(part.training for part in self.modules()):

# %% wrong GPT-LOSS-DTYPE a cast for 16 bits alone
class GPT(gpt.GPT):
    def forward(self, idx, targets=None):
        if idx.shape[1] > self.config.max_seq_len:
            raise ValueError("too long")
        x = self.embedding(idx)
        for block in self.blocks:
            args = x, self.cos_TK[: idx.shape[1]], self.sin_TK[: idx.shape[1]]
            if self.config.activation_checkpointing and self.training:
                x = checkpoint(block, *args, use_reentrant=False)
            else:
                x = block(*args)
        logits = self.head(self.norm(x))
        if targets is None:
            return logits, None
        scores = logits.float() if logits.dtype.itemsize == 2 else logits
        return logits, F.cross_entropy(scores.flatten(0, 1), targets.flatten())
