# Answers to the exercise grad-scaler.

# %% right as the library has it
class LossScaler:
    def __init__(self, scale: float = 2.0**16, *, growth: float = 2.0, backoff: float = 0.5,
                 growth_interval: int = 2000):  # fmt: skip
        if not (scale > 0 and growth > 1 > backoff > 0 and growth_interval >= 1):
            raise ValueError(f"expected scale > 0, growth > 1 > backoff > 0 and an interval of 1 or "
                             f"more, got {scale}, {growth}, {backoff}, {growth_interval}")  # fmt: skip
        self.value, self.growth, self.backoff = scale, growth, backoff
        self.growth_interval, self.good_steps, self.finite = growth_interval, 0, True

    def scale(self, loss: Tensor) -> Tensor:
        return loss * self.value

    def step(self, optimizer: Optimizer, max_norm: float = math.inf) -> float | None:
        params = [p for group in optimizer.param_groups for p in group["params"]]
        grads = [p.grad for p in params if p.grad is not None]
        found = [torch.isfinite(grad.div_(self.value)).all() for grad in grads]
        self.finite = not found or bool(torch.stack(found).all())  # waits for the device, once
        if not self.finite:
            return None
        norm = nn.utils.clip_grad_norm_(params, max_norm)
        optimizer.step()
        return norm.item()

    def update(self) -> None:
        if not self.finite:
            self.value, self.good_steps = self.value * self.backoff, 0
            return
        self.good_steps += 1
        if self.good_steps == self.growth_interval:
            self.value, self.good_steps = min(self.value * self.growth, LARGEST), 0

    def rehearse(
        self, updates: Sequence[Sequence[Tensor | None]], max_norm: float = math.inf
    ) -> list[dict]:
        params = [nn.Parameter(torch.zeros(1) if g is None else torch.zeros_like(g))
                  for g in updates[0]]  # fmt: skip
        optimizer, found = torch.optim.SGD(params, lr=1.0), []
        for gradients in updates:
            for param, gradient in zip(params, gradients, strict=True):
                param.grad = None if gradient is None else gradient * self.value
            norm = self.step(optimizer, max_norm)
            self.update()
            after = [param.detach().clone() for param in params]
            found.append({"norm": norm, "weights": after, "scale": self.value})
        return found

    def state_dict(self) -> dict[str, float]:
        return {"value": self.value, "good_steps": self.good_steps}

    def load_state_dict(self, state: dict[str, float]) -> None:
        self.value, self.good_steps = state["value"], state["good_steps"]

# %% right a flag in a tensor, a product in place of the quotient
class LossScaler(LossScaler):
    def step(self, optimizer, max_norm=math.inf):
        found, params = torch.zeros(()), []
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                p.grad *= 1 / self.value
                params.append(p)
                found += (~torch.isfinite(p.grad)).sum()
        self.finite = found.item() == 0
        if self.finite:
            norm = float(nn.utils.clip_grad_norm_(params, max_norm))
            optimizer.step()
            return norm

    def update(self):
        self.good_steps = self.good_steps + 1 if self.finite else 0
        if not self.finite:
            self.value *= self.backoff
        elif self.good_steps >= self.growth_interval:
            self.value = float(min(LARGEST, self.value * self.growth))
            self.good_steps = 0

# %% right the norm by hand, in float64
class LossScaler(LossScaler):
    def step(self, optimizer, max_norm=math.inf):
        params = [p for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        for p in params:
            p.grad.mul_(1 / self.value)
        flat = torch.cat([torch.zeros(1), *(p.grad.flatten() for p in params)])
        self.finite = bool((flat.abs() < math.inf).all())
        if not self.finite:
            return None
        norm = flat.double().norm().item()
        for p in params:
            p.grad.mul_(min(1.0, max_norm / (norm + 1e-6)))
        optimizer.step()
        return norm

    def update(self):
        if self.finite:
            self.good_steps += 1
            if self.good_steps % self.growth_interval == 0:
                self.value = min(self.value * self.growth, LARGEST)
                self.good_steps = 0
        else:
            self.good_steps = 0
            self.value = self.value * self.backoff

# %% right in plain steps
class LossScaler(LossScaler):
    def step(self, optimizer, max_norm=math.inf):
        params = [p for group in optimizer.param_groups for p in group["params"]]
        grads = [p.grad for p in params if p.grad is not None]
        for grad in grads:
            grad.div_(self.value)
        self.finite = all(bool(torch.isfinite(grad).all()) for grad in grads)
        if not self.finite:
            return None
        norm = nn.utils.clip_grad_norm_(params, max_norm)
        optimizer.step()
        return norm.item()

    def update(self):
        if not self.finite:
            self.value, self.good_steps = self.value * self.backoff, 0
            return
        self.good_steps += 1
        if self.good_steps == self.growth_interval:
            self.value, self.good_steps = min(self.value * self.growth, LARGEST), 0

# %% wrong STUB untouched
class LossScaler(LossScaler):
    def step(self, optimizer, max_norm=math.inf):
        raise NotImplementedError("your code here")

    def update(self):
        raise NotImplementedError("your code here")

# %% wrong SCALER-NOT-DIVIDED steps with scaled gradients
- for grad in grads:
-     grad.div_(self.value)

# %% wrong SCALER-NOT-DIVIDED divides a copy
- grad.div_(self.value)
+ grad = grad / self.value

# %% wrong SCALER-TWICE divides here and there
  grads = [p.grad for p in params if p.grad is not None]
+ for grad in grads:
+     grad.div_(self.value)

# %% wrong SCALER-TIMES multiplies
- grad.div_(self.value)
+ grad.mul_(self.value)

# %% wrong SCALER-ONE-DIVIDED returns to the loop too early
  grad.div_(self.value)
+ break

# %% wrong SCALER-NO-STEP looks and does not step
- optimizer.step()

# %% wrong NONE no return
- return norm.item()

# %% wrong TYPE the norm as a tensor
- return norm.item()
+ return norm

# %% wrong SCALER-NORM the norm after clipping
- return norm.item()
+ return min(norm.item(), max_norm)

# %% wrong SCALER-CLIP-FIRST clips, then divides
class LossScaler(LossScaler):
    def step(self, optimizer, max_norm=math.inf):
        params = [p for group in optimizer.param_groups for p in group["params"]]
        grads = [p.grad for p in params if p.grad is not None]
        norm = nn.utils.clip_grad_norm_(params, max_norm)
        for grad in grads:
            grad.div_(self.value)
        self.finite = all(bool(torch.isfinite(grad).all()) for grad in grads)
        if not self.finite:
            return None
        optimizer.step()
        return norm.item()

    def update(self):
        if not self.finite:
            self.value, self.good_steps = self.value * self.backoff, 0
            return
        self.good_steps += 1
        if self.good_steps == self.growth_interval:
            self.value, self.good_steps = min(self.value * self.growth, LARGEST), 0

# %% wrong SCALER-NO-CLIP max_norm without effect
- norm = nn.utils.clip_grad_norm_(params, max_norm)
+ norm = nn.utils.clip_grad_norm_(params, math.inf)

# %% wrong SCALER-CLIP-EACH each tensor by itself
- norm = nn.utils.clip_grad_norm_(params, max_norm)
+ norm = torch.cat([g.flatten() for g in grads]).norm()
+ for p in params:
+     nn.utils.clip_grad_norm_([p], max_norm)

# %% wrong SCALER-INF-STEP does not look
- self.finite = all(bool(torch.isfinite(grad).all()) for grad in grads)
+ self.finite = True

# %% wrong SCALER-INF-STEP notes it and steps all the same
- return None
+ pass

# %% wrong SCALER-FIRST-ONLY looks at the first
- self.finite = all(bool(torch.isfinite(grad).all()) for grad in grads)
+ self.finite = bool(torch.isfinite(grads[0]).all())

# %% wrong SCALER-FIRST-ONLY the last look wins
- self.finite = all(bool(torch.isfinite(grad).all()) for grad in grads)
+ for grad in grads:
+     self.finite = bool(torch.isfinite(grad).all())

# %% wrong SCALER-NAN-UNSEEN looks for infinity
- self.finite = all(bool(torch.isfinite(grad).all()) for grad in grads)
+ self.finite = not any(bool(torch.isinf(grad).any()) for grad in grads)

# %% wrong SCALER-NAN-UNSEEN a comparison
- self.finite = all(bool(torch.isfinite(grad).all()) for grad in grads)
+ self.finite = not any(bool((grad.abs() == math.inf).any()) for grad in grads)

# %% wrong SCALER-INF-UNSEEN looks for NaN
- self.finite = all(bool(torch.isfinite(grad).all()) for grad in grads)
+ self.finite = not any(bool(torch.isnan(grad).any()) for grad in grads)

# %% wrong SCALER-INF-UNSEEN the largest alone
- self.finite = all(bool(torch.isfinite(grad).all()) for grad in grads)
+ self.finite = all(bool(torch.isfinite(grad.max())) for grad in grads)

# %% wrong SCALER-PART repairs the gradients
- return None
+ for grad in grads:
+     torch.nan_to_num_(grad, 0.0, 0.0, 0.0)

# %% wrong SCALER-PART leaves out the bad parameter alone
- return None
+ for p in params:
+     if p.grad is not None and not torch.isfinite(p.grad).all():
+         p.grad = None

# %% wrong SCALER-NOT-NONE a zero for an update left out
- return None
+ return 0.0

# %% wrong SCALER-GROWS-ALWAYS no interval
- if self.good_steps == self.growth_interval:
-     self.value, self.good_steps = min(self.value * self.growth, LARGEST), 0
+ self.value, self.good_steps = min(self.value * self.growth, LARGEST), 0

# %% wrong SCALER-NO-BACKOFF stays
- self.value, self.good_steps = self.value * self.backoff, 0
+ self.value, self.good_steps = self.value, 0

# %% wrong SCALER-NO-BACKOFF a bad update is passed over
- self.value, self.good_steps = self.value * self.backoff, 0

# %% wrong SCALER-NO-GROWTH only downwards
- self.good_steps += 1

# %% wrong SCALER-COUNT-KEPT counts on after a bad one
- self.value, self.good_steps = self.value * self.backoff, 0
+ self.value = self.value * self.backoff

# %% wrong SCALER-COUNT-GROWN grows once
- self.value, self.good_steps = min(self.value * self.growth, LARGEST), 0
+ self.value = min(self.value * self.growth, LARGEST)

# %% wrong SCALER-COUNT-GROWN grows on and on
- if self.good_steps == self.growth_interval:
-     self.value, self.good_steps = min(self.value * self.growth, LARGEST), 0
+ if self.good_steps >= self.growth_interval:
+     self.value = min(self.value * self.growth, LARGEST)

# %% wrong SCALER-LATE more than the interval
- if self.good_steps == self.growth_interval:
+ if self.good_steps > self.growth_interval:

# %% wrong SCALER-SWAPPED the condition turned round
  def update(self):
-     if not self.finite:
+     if self.finite:

# %% wrong SCALER-STALE finite is never set again
- self.finite = all(bool(torch.isfinite(grad).all()) for grad in grads)
+ if not all(bool(torch.isfinite(grad).all()) for grad in grads):
+     self.finite = False

# %% wrong SCALER-FIXED 2 and a half
- self.value, self.good_steps = self.value * self.backoff, 0
+ self.value, self.good_steps = self.value * 0.5, 0

- self.value, self.good_steps = min(self.value * self.growth, LARGEST), 0
+ self.value, self.good_steps = min(self.value * 2, LARGEST), 0

# %% wrong SCALER-BACKOFF-TWICE step lowers it too
+ self.value *= self.backoff
  return None

# %% wrong SCALER-TYPE a whole number
- self.value, self.good_steps = self.value * self.backoff, 0
+ self.value, self.good_steps = int(self.value * self.backoff), 0

# %% wrong SCALER-TYPE a tensor
- self.value, self.good_steps = min(self.value * self.growth, LARGEST), 0
+ self.value, self.good_steps = torch.as_tensor(self.value * self.growth).clamp(max=LARGEST), 0

# %% wrong SCALER-WHOLE floor division
- self.value, self.good_steps = self.value * self.backoff, 0
+ self.value, self.good_steps = self.value // (1 / self.backoff), 0

# %% wrong SCALER-FLOOR not below 1
- self.value, self.good_steps = self.value * self.backoff, 0
+ self.value, self.good_steps = max(1.0, self.value * self.backoff), 0

# %% wrong SCALER-NO-CAP no upper end
- self.value, self.good_steps = min(self.value * self.growth, LARGEST), 0
+ self.value, self.good_steps = self.value * self.growth, 0

# %% wrong SCALER-OWN-COUNT counts under another name
class LossScaler(LossScaler):
    def step(self, optimizer, max_norm=math.inf):
        params = [p for group in optimizer.param_groups for p in group["params"]]
        grads = [p.grad for p in params if p.grad is not None]
        for grad in grads:
            grad.div_(self.value)
        self.finite = all(bool(torch.isfinite(grad).all()) for grad in grads)
        if not self.finite:
            return None
        norm = nn.utils.clip_grad_norm_(params, max_norm)
        optimizer.step()
        return norm.item()

    def update(self):
        self.clean = getattr(self, "clean", 0) + 1 if self.finite else 0
        if not self.finite:
            self.value *= self.backoff
        elif self.clean == self.growth_interval:
            self.value, self.clean = min(self.value * self.growth, LARGEST), 0

# %% wrong RAISED None among the gradients
- grads = [p.grad for p in params if p.grad is not None]
+ grads = [p.grad for p in params]

# %% wrong SCALER-ONE-GROUP the first group alone | of: in plain steps
- params = [p for group in optimizer.param_groups for p in group["params"]]
+ params = optimizer.param_groups[0]["params"]

# %% wrong SCALER-ONE-GROUP the first group alone is clipped | of: in plain steps
- norm = nn.utils.clip_grad_norm_(params, max_norm)
+ norm = nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], max_norm)

# %% wrong SCALER-CLIP-GROUPS each group by itself | of: in plain steps
- norm = nn.utils.clip_grad_norm_(params, max_norm)
+ norm = nn.utils.get_total_norm(grads)
+ for group in optimizer.param_groups:
+     nn.utils.clip_grad_norm_(group["params"], max_norm)

# %% wrong SCALER-NEW-GRAD a quotient in place of the gradient | of: in plain steps
- grads = [p.grad for p in params if p.grad is not None]
- for grad in grads:
-     grad.div_(self.value)
+ for p in params:
+     p.grad = None if p.grad is None else p.grad / self.value
+ grads = [p.grad for p in params if p.grad is not None]

# %% wrong SCALER-LEFT-SCALED looks first, divides only what is finite | of: in plain steps
- for grad in grads:
-     grad.div_(self.value)
  self.finite = all(bool(torch.isfinite(grad).all()) for grad in grads)
  if not self.finite:
      return None
+ for grad in grads:
+     grad.div_(self.value)

# %% wrong SCALER-BAD-STEP a step with gradients of 0 | of: in plain steps
  if not self.finite:
+     for grad in grads:
+         grad.zero_()
+     optimizer.step()
      return None

# %% wrong SCALER-ZERO a norm of 0 is false | of: in plain steps
- return norm.item()
+ return norm.item() or None

# %% wrong SCALER-LARGE asks the norm | of: in plain steps
- self.finite = all(bool(torch.isfinite(grad).all()) for grad in grads)
+ self.finite = math.isfinite(nn.utils.get_total_norm(grads))

# %% wrong SCALER-COUNT the count goes on | of: in plain steps
- if self.good_steps == self.growth_interval:
-     self.value, self.good_steps = min(self.value * self.growth, LARGEST), 0
+ if self.good_steps % self.growth_interval == 0:
+     self.value = min(self.value * self.growth, LARGEST)

# %% wrong SCALER-SETTINGS another interval | of: as the library has it
- growth_interval: int = 2000):  # fmt: skip
+ growth_interval: int = 1000):  # fmt: skip

# %% wrong SCALER-REFUSAL nothing is refused | of: as the library has it
- if not (scale > 0 and growth > 1 > backoff > 0 and growth_interval >= 1):
+ if scale <= 0:

# %% wrong SCALER-REHEARSE the weights of the last update in every row | of: as the library has it
- after = [param.detach().clone() for param in params]
+ after = [param.detach() for param in params]

# %% right foreach, and a count of what is not finite
class LossScaler(LossScaler):
    def step(self, optimizer, max_norm=math.inf):
        grads = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        torch._foreach_div_(grads, self.value) if grads else None
        self.finite = sum((grad - grad != 0).sum().item() for grad in grads) == 0
        if not self.finite:
            return
        norm = nn.utils.get_total_norm(grads)
        nn.utils.clip_grads_with_norm_([p for g in optimizer.param_groups for p in g["params"]], max_norm, norm)
        optimizer.step()
        return float(norm)

    def update(self):
        if self.finite:
            self.good_steps = (self.good_steps + 1) % self.growth_interval
            if self.good_steps == 0:
                self.value = min(LARGEST, self.growth * self.value)
        else:
            self.good_steps, self.value = 0, self.backoff * self.value

# %% wrong RAISED nothing to divide | of: in plain steps
- self.finite = all(bool(torch.isfinite(grad).all()) for grad in grads)
+ self.finite = bool(torch.stack([torch.isfinite(grad).all() for grad in grads]).all())

# %% wrong SCALER-NO-GRADIENT without gradients as before | of: in plain steps
- self.finite = all(bool(torch.isfinite(grad).all()) for grad in grads)
+ self.finite = all(bool(torch.isfinite(grad).all()) for grad in grads) if grads else self.finite

# %% wrong SCALER-NO-GRADIENT without gradients a bad update | of: in plain steps
- self.finite = all(bool(torch.isfinite(grad).all()) for grad in grads)
+ self.finite = bool(grads) and all(bool(torch.isfinite(grad).all()) for grad in grads)

# %% wrong SCALER-ZERO-LIMIT a limit of 0 is none | of: in plain steps
- norm = nn.utils.clip_grad_norm_(params, max_norm)
+ norm = nn.utils.clip_grad_norm_(params, max_norm or math.inf)

# %% wrong SCALER-LOOKS-EARLY looks before it divides | of: in plain steps
- for grad in grads:
-     grad.div_(self.value)
- self.finite = all(bool(torch.isfinite(grad).all()) for grad in grads)
+ self.finite = all(bool(torch.isfinite(grad).all()) for grad in grads)
+ for grad in grads:
+     grad.div_(self.value)

# %% wrong SCALER-DTYPE float32 alone is looked at | of: in plain steps
- self.finite = all(bool(torch.isfinite(grad).all()) for grad in grads)
+ self.finite = all(bool(torch.isfinite(grad).all()) for grad in grads if grad.dtype == torch.float32)

# %% wrong SCALER-LARGE asks the sum | of: in plain steps
- self.finite = all(bool(torch.isfinite(grad).all()) for grad in grads)
+ self.finite = all(bool(torch.isfinite(grad.sum())) for grad in grads)

# %% wrong SCALER-SHAPES asks the largest of each | of: in plain steps
- self.finite = all(bool(torch.isfinite(grad).all()) for grad in grads)
+ self.finite = all(math.isfinite(grad.abs().max()) for grad in grads)

# %% wrong STRIDED a view of each | of: in plain steps
- self.finite = all(bool(torch.isfinite(grad).all()) for grad in grads)
+ self.finite = all(bool(torch.isfinite(grad.view(-1)).all()) for grad in grads)

# %% wrong SCALER-OWN-FLAG a flag of its own | of: in plain steps
- self.finite = all(bool(torch.isfinite(grad).all()) for grad in grads)
+ self.finite = all(bool(torch.isfinite(grad).all()) for grad in grads)
+ self.good = self.finite

- if not self.finite:
-     self.value, self.good_steps = self.value * self.backoff, 0
+ if not getattr(self, "good", True):
+     self.value, self.good_steps = self.value * self.backoff, 0

# %% wrong SCALER-CAP grows only where all of it fits | of: in plain steps
- self.value, self.good_steps = min(self.value * self.growth, LARGEST), 0
+ self.good_steps = 0
+ if self.value * self.growth <= LARGEST:
+     self.value = self.value * self.growth

# %% wrong SCALER-CAP counts on at the upper end | of: in plain steps
- if self.good_steps == self.growth_interval:
+ if self.good_steps >= self.growth_interval and self.value < LARGEST:

# %% wrong SCALER-BAD-STEP steps and puts the weights back | of: in plain steps
- return None
+ before = [p.detach().clone() for p in params]
+ optimizer.step()
+ for p, old in zip(params, before):
+     p.data.copy_(old)
+ return None

# %% wrong SCALER-GRAD-AFTER clears the gradients of a bad update | of: in plain steps
- return None
+ optimizer.zero_grad(set_to_none=False)
+ return None

# %% wrong SCALER-GRAD-AFTER clears the gradients of a good update | of: in plain steps
- return norm.item()
+ optimizer.zero_grad(set_to_none=False)
+ return norm.item()

# %% wrong SCALER-KEPT-PARAMS the parameters of the first step | of: in plain steps
- params = [p for group in optimizer.param_groups for p in group["params"]]
+ if not hasattr(self, "params"):
+     self.params = [p for group in optimizer.param_groups for p in group["params"]]
+ params = self.params

# %% wrong SCALER-KEPT-SETTINGS the settings of the first update | of: in plain steps
- self.good_steps += 1
+ if not hasattr(self, "first"):
+     self.first = self.growth, self.backoff, self.growth_interval
+ growth, backoff, interval = self.first
+ self.good_steps += 1

- if self.good_steps == self.growth_interval:
-     self.value, self.good_steps = min(self.value * self.growth, LARGEST), 0
+ if self.good_steps == interval:
+     self.value, self.good_steps = min(self.value * growth, LARGEST), 0

# %% wrong SCALER-CAP a scale above the upper end stays there | of: in plain steps
- self.value, self.good_steps = min(self.value * self.growth, LARGEST), 0
+ self.value, self.good_steps = max(self.value, min(self.value * self.growth, LARGEST)), 0

# %% wrong SCALER-CAP a scale above the upper end grows on | of: in plain steps
- self.value, self.good_steps = min(self.value * self.growth, LARGEST), 0
+ larger = self.value * self.growth
+ self.value, self.good_steps = min(larger, LARGEST) if self.value <= LARGEST else larger, 0
