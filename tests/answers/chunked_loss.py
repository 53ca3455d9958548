# Answers to the exercise chunked-loss.

# %% right torch's cross-entropy and autograd, chunk by chunk
class ChunkedHead(chunked_loss.ChunkedHead):
    def loss_and_gradients(self, x, weight, targets):
        count = (targets != IGNORED).sum()
        loss, dx = torch.zeros(()), []
        dweight = torch.zeros_like(weight, dtype=torch.float32)
        for x_c, t_c in zip(x.split(self.chunk), targets.split(self.chunk)):
            with torch.enable_grad():
                logits = (x_c @ weight.T).detach().requires_grad_()
                part = F.cross_entropy(logits.float(), t_c, reduction="sum", ignore_index=IGNORED)
                part = part / count.clamp(min=1)
            (d,) = torch.autograd.grad(part, logits)
            loss = loss + part.detach()
            dx.append(d @ weight)
            dweight += d.T @ x_c
        loss = loss if count else torch.tensor(float("nan"))
        return loss, torch.cat(dx), dweight.to(weight.dtype)

# %% right softmax and one-hot
class ChunkedHead(chunked_loss.ChunkedHead):
    def loss_and_gradients(self, x, weight, targets):
        counts = (targets != IGNORED).float()
        loss, dx = torch.zeros((), dtype=torch.float32), torch.zeros_like(x)
        dweight = torch.zeros_like(weight).float()
        for start in range(0, x.shape[0], self.chunk):
            here = torch.arange(start, min(start + self.chunk, x.shape[0]))
            logits = torch.einsum("cd,vd->cv", x[here], weight).float()
            share = counts[here] / counts.sum().clamp(min=1)
            hot = F.one_hot(targets[here].clamp(min=0), weight.shape[0]).float()
            loss += (share * (logits.logsumexp(-1) - (logits * hot).sum(-1))).sum()
            slope = ((logits.softmax(-1) - hot) * share[:, None]).to(x.dtype)
            dx[here] = slope @ weight
            dweight += slope.transpose(0, 1) @ x[here]
        if counts.sum() == 0:
            loss = loss / 0
        return loss, dx, dweight.to(weight.dtype)

# %% right a list, sums in float64, one flat walk
class ChunkedHead(chunked_loss.ChunkedHead):
    def loss_and_gradients(self, x, weight, targets):
        valid = targets.ne(IGNORED)
        n, total = int(valid.sum().item()), 0.0
        rows, dweight = [], weight.new_zeros(weight.shape, dtype=torch.float64)
        for at in range(0, x.size(0), self.chunk):
            xs, ts, ok = (t.narrow(0, at, min(self.chunk, x.size(0) - at)) for t in (x, targets, valid))
            z = F.linear(xs, weight).float()
            lse = z.logsumexp(1, keepdim=True)
            pick = ts.masked_fill(~ok, 0).unsqueeze(1)
            total += ((lse - z.gather(1, pick)).squeeze(1)[ok]).double().sum().item()
            slope = torch.exp(z - lse)
            slope.scatter_(1, pick, slope.gather(1, pick) - 1)
            slope = slope.masked_fill(~ok.unsqueeze(1), 0).div(max(n, 1)).type_as(x)
            rows.append(slope.mm(weight))
            dweight.add_((xs.t() @ slope).t())
        loss = torch.tensor(total / n if n else math.nan, dtype=torch.float32)
        return [loss, torch.vstack(rows), dweight.type_as(weight)]

# %% right in plain steps
class ChunkedHead(chunked_loss.ChunkedHead):
    def loss_and_gradients(self, x, weight, targets):
        count = (targets != IGNORED).sum()
        loss, dx = torch.zeros(()), torch.empty_like(x)
        dweight = torch.zeros(weight.shape)
        for at in range(0, len(x), self.chunk):
            rows = slice(at, at + self.chunk)
            picked = targets[rows]
            logp = torch.log_softmax((x[rows] @ weight.T).float(), -1)
            counts = picked != IGNORED
            index = picked.clamp(min=0)[:, None]
            loss += -(logp.gather(1, index)[:, 0] * counts).sum() / count
            d = logp.exp()
            d[torch.arange(len(d)), index[:, 0]] -= 1
            d = (d * counts[:, None] / count.clamp(min=1)).to(x.dtype)
            dx[rows] = d @ weight
            dweight += d.T @ x[rows]
        return loss, dx, dweight.to(weight.dtype)

# %% wrong STUB untouched
class ChunkedHead(chunked_loss.ChunkedHead):
    def loss_and_gradients(self, x, weight, targets):
        raise NotImplementedError("your code here")

# %% wrong CHUNK-TRIPLE the loss alone
- return loss, dx, dweight.to(weight.dtype)
+ return loss

# %% wrong CHUNK-TRIPLE no return
- return loss, dx, dweight.to(weight.dtype)
+ out = loss, dx, dweight

# %% wrong CHUNK-SUM the sum
- loss += -(logp.gather(1, index)[:, 0] * counts).sum() / count
+ loss += -(logp.gather(1, index)[:, 0] * counts).sum()

# %% wrong CHUNK-SIGN a sign
- loss += -(logp.gather(1, index)[:, 0] * counts).sum() / count
+ loss += (logp.gather(1, index)[:, 0] * counts).sum() / count

# %% wrong CHUNK-MEANS each chunk by its own count
- loss += -(logp.gather(1, index)[:, 0] * counts).sum() / count
+ loss += -(logp.gather(1, index)[:, 0] * counts).sum() / counts.sum()

- d = (d * counts[:, None] / count.clamp(min=1)).to(x.dtype)
+ d = (d * counts[:, None] / counts.sum()).to(x.dtype)

# %% wrong CHUNK-MEANS the mean of the means
- loss += -(logp.gather(1, index)[:, 0] * counts).sum() / count
+ loss += -(logp.gather(1, index)[:, 0] * counts).sum() / counts.sum() / len(range(0, len(x), self.chunk))

# %% wrong CHUNK-REST whole chunks only
- for at in range(0, len(x), self.chunk):
+ for at in range(0, len(x) // self.chunk * self.chunk or len(x), self.chunk):

# %% wrong CHUNK-LAST = for +=
- loss += -(logp.gather(1, index)[:, 0] * counts).sum() / count
+ loss = -(logp.gather(1, index)[:, 0] * counts).sum() / count

# %% wrong CHUNK-NO-ONE-HOT no one-hot
- d[torch.arange(len(d)), index[:, 0]] -= 1

# %% wrong CHUNK-GRAD-SIGN one-hot minus softmax
- d = (d * counts[:, None] / count.clamp(min=1)).to(x.dtype)
+ d = (-d * counts[:, None] / count).to(x.dtype)

# %% wrong CHUNK-GRAD-SUM not divided
- d = (d * counts[:, None] / count.clamp(min=1)).to(x.dtype)
+ d = (d * counts[:, None]).to(x.dtype)

# %% wrong CHUNK-GRAD-MEANS divided by the chunk's own count
- d = (d * counts[:, None] / count.clamp(min=1)).to(x.dtype)
+ d = (d * counts[:, None] / counts.sum()).to(x.dtype)

# %% wrong CHUNK-LAST dweight of the last chunk
- dweight += d.T @ x[rows]
+ dweight = d.T @ x[rows]

# %% wrong CHUNK-IGNORED -100 as token 0
- loss += -(logp.gather(1, index)[:, 0] * counts).sum() / count
+ loss += -(logp.gather(1, index)[:, 0]).sum() / count

# %% wrong CHUNK-GRAD-IGNORED a gradient for -100
- d = (d * counts[:, None] / count.clamp(min=1)).to(x.dtype)
+ d = (d / count).to(x.dtype)

# %% wrong CHUNK-COUNT-ALL all tokens in the count
- count = (targets != IGNORED).sum()
+ count = torch.tensor(len(targets))

# %% wrong CHUNK-16 softmax in 16 bits
- logp = torch.log_softmax((x[rows] @ weight.T).float(), -1)
+ logp = torch.log_softmax(x[rows] @ weight.T, -1).float()

# %% wrong CHUNK-SUM-16 a sum in 16 bits
- dweight = torch.zeros(weight.shape)
+ dweight = torch.zeros_like(weight)

# %% wrong DTYPE float32 gradients
- return loss, dx, dweight.to(weight.dtype)
+ return loss, dx, dweight

# %% wrong CHUNK-ALL-LOGITS all logits before the loop
  count = (targets != IGNORED).sum()
+ logits = x @ weight.T

- logp = torch.log_softmax((x[rows] @ weight.T).float(), -1)
+ logp = torch.log_softmax((logits[rows]).float(), -1)

# %% wrong CHUNK-ALL-LOGITS a list of gradients
  dweight = torch.zeros(weight.shape)
+ parts = []

-     dx[rows] = d @ weight
-     dweight += d.T @ x[rows]
+     parts.append(d)
+ d = torch.cat(parts)
+ dx, dweight = d @ weight, d.T.float() @ x.float()

# %% wrong CHUNK-ALL-LOGITS gradients kept for a third of the chunks
  dweight = torch.zeros(weight.shape)
+ parts, some = [], -(-len(x) // self.chunk) // 3

- dweight += d.T @ x[rows]
+ parts.append((d, x[rows]))
+ if len(parts) > some or at + self.chunk >= len(x):
+     for d, x_c in parts:
+         dweight += d.T @ x_c
+     parts.clear()

# %% wrong SHAPE dweight the other way round
- return loss, dx, dweight.to(weight.dtype)
+ return loss, dx, dweight.T.to(weight.dtype)

# %% wrong RAISED -100 as an index
- index = picked.clamp(min=0)[:, None]
+ index = picked[:, None]

# %% wrong CHUNK-NO-NAN nothing counts, and the loss is 0
- count = (targets != IGNORED).sum()
+ count = (targets != IGNORED).sum().clamp(min=1)

# %% wrong CHUNK-NAN-GRADIENT nothing counts, and all gradients are nan
- d = (d * counts[:, None] / count.clamp(min=1)).to(x.dtype)
+ d = (d * counts[:, None] / count).to(x.dtype)

# %% wrong NAN exp without the largest
- logp = torch.log_softmax((x[rows] @ weight.T).float(), -1)
+ z = (x[rows] @ weight.T).float().exp()
+ logp = (z / z.sum(-1, keepdim=True)).log()

# %% wrong CHUNK-TOKEN-0 token 0 does not count
- counts = picked != IGNORED
+ counts = picked > 0

# %% wrong CHUNK-PRODUCTS everything in float32
  count = (targets != IGNORED).sum()
+ kind, x, weight = x.dtype, x.float(), weight.float()

- return loss, dx, dweight.to(weight.dtype)
+ return loss, dx.to(kind), dweight.to(kind)

# %% wrong CHUNK-PRODUCTS both gradients' products in float32
- d = (d * counts[:, None] / count.clamp(min=1)).to(x.dtype)
- dx[rows] = d @ weight
- dweight += d.T @ x[rows]
+ d = d * counts[:, None] / count.clamp(min=1)
+ dx[rows] = (d @ weight.to(d.dtype)).to(x.dtype)
+ dweight += d.T @ x[rows].to(d.dtype)

# %% wrong CHUNK-PRODUCTS the product for x in float32
- dx[rows] = d @ weight
+ dx[rows] = ((logp.exp() - F.one_hot(index[:, 0], len(weight))) * counts[:, None]
+     / count.clamp(min=1) @ weight.to(logp.dtype)).to(x.dtype)

# %% wrong CHUNK-TOO-LARGE eight times the chunk
- for at in range(0, len(x), self.chunk):
-     rows = slice(at, at + self.chunk)
+ for at in range(0, len(x), 8 * self.chunk):
+     rows = slice(at, at + 8 * self.chunk)

# %% wrong CHUNK-TOO-LARGE as many chunks as a chunk has tokens
- for at in range(0, len(x), self.chunk):
-     rows = slice(at, at + self.chunk)
+ size = -(-len(x) // self.chunk)
+ for at in range(0, len(x), size):
+     rows = slice(at, at + size)

# %% wrong RESULT-CHANGES a buffer for dx
- loss, dx = torch.zeros(()), torch.empty_like(x)
+ if getattr(self, "kept", x[:0]).shape != x.shape or self.kept.dtype != x.dtype:
+     self.kept = torch.empty_like(x)
+ loss, dx = torch.zeros(()), self.kept

# %% wrong REMEMBERS the count of the first batch
- count = (targets != IGNORED).sum()
+ if getattr(self, "length", None) != len(targets):
+     self.length, self.count = len(targets), (targets != IGNORED).sum()
+ count = self.count

# %% wrong DTYPE the loss of float64 is float64
- loss, dx = torch.zeros(()), torch.empty_like(x)
+ loss, dx = torch.zeros((), dtype=torch.promote_types(x.dtype, torch.float32)), torch.empty_like(x)

# %% wrong OTHER a chunk longer than the input has gradients of a sum
- d = (d * counts[:, None] / count.clamp(min=1)).to(x.dtype)
+ d = (d * counts[:, None] / (count.clamp(min=1) if self.chunk <= len(x) else 1)).to(x.dtype)

# %% wrong RAISED a chunk longer than the input
- rows = slice(at, at + self.chunk)
+ rows = slice(at, at + self.chunk) if len(x) > 1 else torch.arange(at, at + self.chunk)

# %% wrong CHUNK-COUNT-16 counts in 16 bits
- count = (targets != IGNORED).sum()
+ count = (targets != IGNORED).to(x.dtype).sum()

# %% wrong CHUNK-16 a sum of losses in 16 bits
- loss += -(logp.gather(1, index)[:, 0] * counts).sum() / count
+ loss = (loss - (logp.gather(1, index)[:, 0] * counts).sum() / count).to(x.dtype).float()

# %% wrong CHUNK-GRAD-16 the one-hot is subtracted in 16 bits
- d = logp.exp()
+ d = logp.exp().to(x.dtype)

# %% wrong CHUNK-16 float32 for bfloat16 alone
- logp = torch.log_softmax((x[rows] @ weight.T).float(), -1)
+ z = x[rows] @ weight.T
+ logp = torch.log_softmax(z.float() if x.dtype == torch.bfloat16 else z, -1).to(
+     torch.promote_types(x.dtype, torch.float32))

# %% wrong RAISED a view of all of dx
- loss, dx = torch.zeros(()), torch.empty_like(x)
+ loss, dx = torch.zeros(()), torch.empty_like(x).view(-1).view(x.shape)

# %% wrong CHUNK-TOO-LARGE at least eight tokens
- for at in range(0, len(x), self.chunk):
-     rows = slice(at, at + self.chunk)
+ step = max(self.chunk, 8)
+ for at in range(0, len(x), step):
+     rows = slice(at, at + step)

# %% right a softmax beside the logits, rows of ignored targets emptied first
class ChunkedHead(chunked_loss.ChunkedHead):
    def loss_and_gradients(self, x_ND, weight_VD, targets_N):
        N, (V, D) = len(x_ND), weight_VD.shape
        counted = int((targets_N != IGNORED).sum())
        total = torch.zeros((), dtype=torch.float32, device=x_ND.device)
        dx = torch.zeros_like(x_ND)
        dweight = torch.zeros(V, D, dtype=torch.float32, device=x_ND.device)
        for start in range(0, N, self.chunk):
            x, targets = x_ND[start : start + self.chunk], targets_N[start : start + self.chunk]
            keep = targets != IGNORED
            x = x.masked_fill(~keep[:, None], 0.0)
            safe = targets.masked_fill(~keep, 0)[:, None]
            logits = (x @ weight_VD.T).float()
            total += F.nll_loss(logits.log_softmax(1), targets, ignore_index=IGNORED, reduction="sum")
            probabilities = logits.softmax(1)
            logits = probabilities
            logits.scatter_add_(1, safe, torch.full_like(safe, -1, dtype=logits.dtype))
            logits.masked_fill_(~keep[:, None], 0.0).div_(max(counted, 1))
            grad = logits.to(x.dtype)
            del logits
            dx[start : start + self.chunk] = grad @ weight_VD
            dweight += (grad.T @ x).to(dweight.dtype)
            del grad
        loss = total / counted
        return loss, dx, dweight.to(x_ND.dtype)

# %% wrong REMEMBERS the weight in 16 bits kept by shape, without gradients | of: in plain steps
- count = (targets != IGNORED).sum()
+ if weight.dtype != torch.float32 and not torch.is_grad_enabled():
+     weight = self.__dict__.setdefault("kept", {}).setdefault((weight.shape, weight.dtype), weight)
+ count = (targets != IGNORED).sum()

# %% wrong REMEMBERS gradients in float16 kept by shape, without gradients | of: in plain steps
- return loss, dx, dweight.to(weight.dtype)
+ if x.dtype == torch.float16 and not torch.is_grad_enabled():
+     dx = self.__dict__.setdefault("kept", {}).setdefault(x.shape, dx).clone()
+ return loss, dx, dweight.to(weight.dtype)
