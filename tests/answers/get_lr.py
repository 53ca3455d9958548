# Answers to the exercise get-lr.

# %% right the part that is done, clamped
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def get_lr(self, step):
        c = self.config
        if step < min(c.warmup_steps, c.max_steps):
            return c.lr * (step + 1) / c.warmup_steps
        done = 1.0
        if c.max_steps > c.warmup_steps:
            done = min(1.0, (step - c.warmup_steps) / (c.max_steps - c.warmup_steps))
        return c.min_lr + (c.lr - c.min_lr) * (1 + math.cos(math.pi * done)) / 2

# %% right a squared cosine, a weighted mean of both rates
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def get_lr(self, step):
        lr, low, W, N = self.config.lr, self.config.min_lr, self.config.warmup_steps, self.config.max_steps
        if step >= N:
            return low
        if step < W:
            return lr - lr * (W - 1 - step) / W
        share = math.cos(math.pi / 2 * (step - W) / (N - W)) ** 2
        return share * lr + (1 - share) * low

# %% right in tensors of float32
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def get_lr(self, step):
        c = self.config
        if step >= c.max_steps:
            return c.min_lr
        if step + 1 <= c.warmup_steps:
            return (torch.tensor(c.lr) * (step + 1) / c.warmup_steps).item()
        angle = torch.tensor(torch.pi * (step - c.warmup_steps) / (c.max_steps - c.warmup_steps))
        return torch.lerp(torch.tensor(c.min_lr), torch.tensor(c.lr), (angle.cos() + 1) / 2).item()

# %% right with torch's own schedulers
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def get_lr(self, step):
        c = self.config
        if step >= c.max_steps:
            return c.min_lr
        if step < c.warmup_steps:
            return c.lr * (step + 1) / c.warmup_steps
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=c.lr)
        theirs = torch.optim.lr_scheduler.CosineAnnealingLR(
            optimizer, c.max_steps - c.warmup_steps, eta_min=c.min_lr)
        for _ in range(step - c.warmup_steps):
            optimizer.step()
            theirs.step()
        return optimizer.param_groups[0]["lr"]

# %% right in plain steps
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def get_lr(self, step):
        c = self.config
        if step >= c.max_steps:
            return c.min_lr
        if step < c.warmup_steps:
            return c.lr * (step + 1) / c.warmup_steps
        done = (step - c.warmup_steps) / (c.max_steps - c.warmup_steps)
        return c.min_lr + 0.5 * (c.lr - c.min_lr) * (1 + math.cos(math.pi * done))

# %% wrong STUB untouched
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def get_lr(self, step):
        raise NotImplementedError("your code here")

# %% wrong NONE the cosine is not returned
- return c.min_lr + 0.5 * (c.lr - c.min_lr) * (1 + math.cos(math.pi * done))
+ rate = c.min_lr + 0.5 * (c.lr - c.min_lr) * (1 + math.cos(math.pi * done))

# %% wrong TYPE a tensor
- return c.lr * (step + 1) / c.warmup_steps
+ return torch.tensor(c.lr * (step + 1) / c.warmup_steps)

# %% wrong TYPE rate and factor
- return c.lr * (step + 1) / c.warmup_steps
+ return c.lr * (step + 1) / c.warmup_steps, (step + 1) / c.warmup_steps

# %% wrong NAN a cosine of infinity in tensors
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def get_lr(self, step):
        c = self.config
        if step < c.warmup_steps:
            return c.lr * (step + 1) / c.warmup_steps
        done = (step - c.warmup_steps) / (c.max_steps - c.warmup_steps)
        turn = torch.tensor(math.inf if done > 1 else math.pi * done)
        return c.min_lr + 0.5 * (c.lr - c.min_lr) * (1 + turn.cos().item())

# %% wrong RAISED a setting that does not exist
- if step >= c.max_steps:
+ if step >= c.total_steps:

# %% wrong RAISED the settings as names
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def get_lr(self, step):
        c = self.config
        if step >= max_steps:
            return min_lr
        if step < warmup_steps:
            return c.lr * (step + 1) / c.warmup_steps
        done = (step - c.warmup_steps) / (c.max_steps - c.warmup_steps)
        return c.min_lr + 0.5 * (c.lr - c.min_lr) * (1 + math.cos(math.pi * done))

# %% wrong LR-FIRST-ZERO step / warmup_steps
- return c.lr * (step + 1) / c.warmup_steps
+ return c.lr * step / c.warmup_steps

# %% wrong LR-FIRST-ZERO whole numbers only
- return c.lr * (step + 1) / c.warmup_steps
+ return c.lr * ((step + 1) // c.warmup_steps)

# %% wrong LR-RESUME counts from its first call
  c = self.config
+ self.started = getattr(self, "started", step)
+ step -= self.started

# %% wrong LR-RESUME counts its calls
  c = self.config
+ self.calls = getattr(self, "calls", -1) + 1
+ step = self.calls

# %% wrong LR-STATE multiplies the rate of the last call
- return c.min_lr + 0.5 * (c.lr - c.min_lr) * (1 + math.cos(math.pi * done))
+ self.last = getattr(self, "last", c.lr) * 0.99
+ return max(c.min_lr, self.last)

# %% wrong LR-SELF-STEP self.step in place of step
- c = self.config
+ c, step = self.config, self.step

# %% wrong LR-NO-WARMUP no warmup, lr at once
- return c.lr * (step + 1) / c.warmup_steps
+ return c.lr

# %% wrong LR-NO-WARMUP a cosine from update 0
- if step < c.warmup_steps:
-     return c.lr * (step + 1) / c.warmup_steps
- done = (step - c.warmup_steps) / (c.max_steps - c.warmup_steps)
+ done = step / c.max_steps

# %% wrong LR-WARMUP-LATE one for update 0
- return c.lr * (step + 1) / c.warmup_steps
+ return c.lr * max(step, 1) / c.warmup_steps

# %% wrong LR-WARMUP-LATE divides by warmup_steps + 1
- return c.lr * (step + 1) / c.warmup_steps
+ return c.lr * (step + 1) / (c.warmup_steps + 1)

# %% wrong LR-WARMUP-FROM-MIN climbs from min_lr
- return c.lr * (step + 1) / c.warmup_steps
+ return c.min_lr + (c.lr - c.min_lr) * step / c.warmup_steps

# %% wrong LR-WARMUP-FROM-MIN climbs from min_lr, step + 1
- return c.lr * (step + 1) / c.warmup_steps
+ return c.min_lr + (c.lr - c.min_lr) * (step + 1) / c.warmup_steps

# %% wrong LR-FACTOR a factor of lr
- return c.lr * (step + 1) / c.warmup_steps
+ return (step + 1) / c.warmup_steps

# %% wrong OTHER a warmup along the square root
- return c.lr * (step + 1) / c.warmup_steps
+ return c.lr * math.sqrt((step + 1) / c.warmup_steps)

# %% wrong OTHER exponential decay
- return c.min_lr + 0.5 * (c.lr - c.min_lr) * (1 + math.cos(math.pi * done))
+ return c.lr * (c.min_lr / c.lr) ** done

# %% wrong LR-ENDS-AT-ZERO min_lr left out
- return c.min_lr + 0.5 * (c.lr - c.min_lr) * (1 + math.cos(math.pi * done))
+ return 0.5 * c.lr * (1 + math.cos(math.pi * done))

# %% wrong LR-FLOOR the larger of both
- return c.min_lr + 0.5 * (c.lr - c.min_lr) * (1 + math.cos(math.pi * done))
+ return max(c.min_lr, 0.5 * c.lr * (1 + math.cos(math.pi * done)))

# %% wrong LR-SWING a swing of lr
- return c.min_lr + 0.5 * (c.lr - c.min_lr) * (1 + math.cos(math.pi * done))
+ return c.min_lr + 0.5 * c.lr * (1 + math.cos(math.pi * done))

# %% wrong LR-COSINE-START step / max_steps
- done = (step - c.warmup_steps) / (c.max_steps - c.warmup_steps)
+ done = step / c.max_steps

# %% wrong LR-COSINE-START warmup taken off below only
- done = (step - c.warmup_steps) / (c.max_steps - c.warmup_steps)
+ done = step / (c.max_steps - c.warmup_steps)

# %% wrong LR-COSINE-LENGTH warmup taken off above only
- done = (step - c.warmup_steps) / (c.max_steps - c.warmup_steps)
+ done = (step - c.warmup_steps) / c.max_steps

# %% wrong LR-WHOLE-COSINE two pi
- return c.min_lr + 0.5 * (c.lr - c.min_lr) * (1 + math.cos(math.pi * done))
+ return c.min_lr + 0.5 * (c.lr - c.min_lr) * (1 + math.cos(2 * math.pi * done))

# %% wrong LR-ANGLE no pi
- return c.min_lr + 0.5 * (c.lr - c.min_lr) * (1 + math.cos(math.pi * done))
+ return c.min_lr + 0.5 * (c.lr - c.min_lr) * (1 + math.cos(done))

# %% wrong LR-ANGLE degrees
- return c.min_lr + 0.5 * (c.lr - c.min_lr) * (1 + math.cos(math.pi * done))
+ return c.min_lr + 0.5 * (c.lr - c.min_lr) * (1 + math.cos(180 * done))

# %% wrong LR-NO-HALF the half left out
- return c.min_lr + 0.5 * (c.lr - c.min_lr) * (1 + math.cos(math.pi * done))
+ return c.min_lr + (c.lr - c.min_lr) * (1 + math.cos(math.pi * done))

# %% wrong LR-NO-ONE cos alone
- return c.min_lr + 0.5 * (c.lr - c.min_lr) * (1 + math.cos(math.pi * done))
+ return c.min_lr + (c.lr - c.min_lr) * math.cos(math.pi * done)

# %% wrong LR-UP one minus cos
- return c.min_lr + 0.5 * (c.lr - c.min_lr) * (1 + math.cos(math.pi * done))
+ return c.min_lr + 0.5 * (c.lr - c.min_lr) * (1 - math.cos(math.pi * done))

# %% wrong LR-LINEAR a straight line
- return c.min_lr + 0.5 * (c.lr - c.min_lr) * (1 + math.cos(math.pi * done))
+ return c.min_lr + (c.lr - c.min_lr) * (1 - done)

# %% wrong LR-CONSTANT constant after the warmup
- return c.min_lr + 0.5 * (c.lr - c.min_lr) * (1 + math.cos(math.pi * done))
+ return c.lr

# %% wrong LR-OFF-BY-ONE step + 1 here too
- done = (step - c.warmup_steps) / (c.max_steps - c.warmup_steps)
+ done = (step + 1 - c.warmup_steps) / (c.max_steps - c.warmup_steps)

# %% wrong LR-OFF-BY-ONE min_lr in the last update
- done = (step - c.warmup_steps) / (c.max_steps - c.warmup_steps)
+ done = (step - c.warmup_steps) / (c.max_steps - 1 - c.warmup_steps)

# %% wrong LR-CLIMBS-BACK no clamp
- if step >= c.max_steps:
-     return c.min_lr

# %% wrong LR-AFTER-ZERO zero after the end
- return c.min_lr
+ return 0.0

# %% wrong LR-AFTER-LR a new cosine at max_steps
- if step >= c.max_steps:
+ if step > c.max_steps:

- done = (step - c.warmup_steps) / (c.max_steps - c.warmup_steps)
+ done = (step - c.warmup_steps) / (c.max_steps - c.warmup_steps) % 1.0

# %% wrong NONE nothing after the end
- return c.min_lr
+ return None

# %% wrong LR-MICRO-STEPS step times accumulation
  c = self.config
+ step = step * c.grad_accumulation

# %% wrong LR-MICRO-STEPS step by accumulation
  c = self.config
+ step = step // c.grad_accumulation

# %% wrong LR-MICRO-STEPS a longer run
- if step >= c.max_steps:
+ if step >= c.max_steps * c.grad_accumulation:

- done = (step - c.warmup_steps) / (c.max_steps - c.warmup_steps)
+ done = (step - c.warmup_steps) / (c.max_steps * c.grad_accumulation - c.warmup_steps)

# %% wrong LR-ZERO-WARMUP divides before it asks
  c = self.config
+ climb = (step + 1) / c.warmup_steps

- return c.lr * (step + 1) / c.warmup_steps
+ return c.lr * climb

# %% wrong LR-ALL-WARMUP divides by zero at the end
- if step >= c.max_steps:
+ if step > c.max_steps:

# %% wrong LR-ALL-WARMUP the warmup comes first
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def get_lr(self, step):
        c = self.config
        if step < c.warmup_steps:
            return c.lr * (step + 1) / c.warmup_steps
        if step >= c.max_steps:
            return c.min_lr
        done = (step - c.warmup_steps) / (c.max_steps - c.warmup_steps)
        return c.min_lr + 0.5 * (c.lr - c.min_lr) * (1 + math.cos(math.pi * done))

# %% wrong LR-ALL-WARMUP a guard of one update
- if step >= c.max_steps:
-     return c.min_lr

- done = (step - c.warmup_steps) / (c.max_steps - c.warmup_steps)
+ done = min(1.0, (step - c.warmup_steps) / max(1, c.max_steps - c.warmup_steps))

# %% wrong LR-SHARED rates kept for all trainers | of: in plain steps
  def get_lr(self, step):
      c = self.config
+     key = step, c.warmup_steps, c.max_steps
+     kept = DistributedTrainer.__dict__.get("kept", {})
+     DistributedTrainer.kept = kept
+     if key not in kept:
+         kept[key] = self.find_lr(step)
+     return kept[key]
+
+ def find_lr(self, step):
+     c = self.config

# %% wrong LR-ZERO-MIN a lowest rate of 0 taken for none | of: in plain steps
  c = self.config
- if step >= c.max_steps:
-     return c.min_lr
+ low = c.min_lr or 0.1 * c.lr
+ if step >= c.max_steps:
+     return low

- return c.min_lr + 0.5 * (c.lr - c.min_lr) * (1 + math.cos(math.pi * done))
+ return low + 0.5 * (c.lr - low) * (1 + math.cos(math.pi * done))

# %% wrong LR-OTHER-STATE the later of both steps | of: in plain steps
  c = self.config
+ step = max(step, self.step)

# %% wrong LR-OTHER-STATE steps counted on from the trainer's own | of: in plain steps
  c = self.config
+ step = step + self.step

# %% wrong LR-OTHER-STATE the rate that the optimizer has | of: in plain steps
- return c.lr * (step + 1) / c.warmup_steps
+ return self.optimizer.param_groups[0]["lr"] * (step + 1) / c.warmup_steps if step else c.lr / c.warmup_steps

# %% wrong LR-OTHER-STATE the end by the trainer's own step | of: in plain steps
- if step >= c.max_steps:
+ if max(step, self.step) >= c.max_steps:

# %% wrong LR-SIZES no rate above 1 | of: in plain steps
- return c.min_lr + 0.5 * (c.lr - c.min_lr) * (1 + math.cos(math.pi * done))
+ return min(1.0, c.min_lr + 0.5 * (c.lr - c.min_lr) * (1 + math.cos(math.pi * done)))

# %% wrong LR-SIZES no rate below 1e-8 | of: in plain steps
- return c.lr * (step + 1) / c.warmup_steps
+ return max(1e-7, c.lr * (step + 1) / c.warmup_steps)

# %% wrong LR-SIZES rounded to ten digits after the point | of: in plain steps
- return c.min_lr + 0.5 * (c.lr - c.min_lr) * (1 + math.cos(math.pi * done))
+ return round(c.min_lr + 0.5 * (c.lr - c.min_lr) * (1 + math.cos(math.pi * done)), 10)

# %% wrong LR-SIZES a warmup of one update taken for none | of: in plain steps
- if step < c.warmup_steps:
+ if step < c.warmup_steps and c.warmup_steps > 1:

- done = (step - c.warmup_steps) / (c.max_steps - c.warmup_steps)
+ done = (step - c.warmup_steps * (c.warmup_steps > 1)) / (c.max_steps - c.warmup_steps)

# %% right one expression, of the step alone
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def get_lr(self, step: int) -> float:
        W, N, lr, low = (getattr(self.config, name) for name in ("warmup_steps", "max_steps", "lr", "min_lr"))
        done = np.clip((step - W) / max(N - W, 1), 0, 1)
        rate = lr * min(1, (step + 1) / max(W, 1)) if step < W else (lr + low + (lr - low) * np.cos(np.pi * done)) / 2
        return float(low if step >= N else rate)

# %% wrong LR-OTHER-STATE a table made at the first call | of: in plain steps
  def get_lr(self, step):
      c = self.config
+     if step >= c.max_steps:
+         return c.min_lr
+     if not hasattr(self, "rates"):
+         self.rates = [self.find_lr(i) for i in range(c.max_steps)]
+     return self.rates[step]
+
+ def find_lr(self, step):
+     c = self.config

# %% wrong LR-OTHER-STATE the settings of the first call | of: in plain steps
- c = self.config
+ c = self.first = getattr(self, "first", self.config)

# %% wrong LR-OTHER-STATE the lengths of the first call | of: in plain steps
  c = self.config
+ warmup, end = self.lengths = getattr(self, "lengths", (c.warmup_steps, c.max_steps))
  if step >= c.max_steps:
      return c.min_lr
- if step < c.warmup_steps:
-     return c.lr * (step + 1) / c.warmup_steps
- done = (step - c.warmup_steps) / (c.max_steps - c.warmup_steps)
+ if step < warmup:
+     return c.lr * (step + 1) / warmup
+ done = (step - warmup) / (end - warmup)

# %% wrong LR-OTHER-STATE rates kept by trainer and step | of: in plain steps
  def get_lr(self, step):
      c = self.config
+     kept = self.__dict__.setdefault("kept", {})
+     if step not in kept:
+         kept[step] = self.find_lr(step)
+     return kept[step]
+
+ def find_lr(self, step):
+     c = self.config

# %% right a table for each config
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def get_lr(self, step):
        c = self.config
        tables = self.__dict__.setdefault("tables", {})
        if c not in tables:
            W, N = c.warmup_steps, c.max_steps
            climb = [c.lr * (i + 1) / W for i in range(min(W, N))]
            turns = [math.pi * (i - W) / (N - W) for i in range(W, N)]
            tables[c] = climb + [c.min_lr + (c.lr - c.min_lr) * (1 + math.cos(turn)) / 2 for turn in turns]
        return tables[c][step] if step < c.max_steps else c.min_lr

# %% right the last config and its table
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def get_lr(self, step):
        c = self.config
        if step >= c.max_steps:
            return c.min_lr
        if getattr(self, "table_of", None) is not c:
            self.table_of, self.table = c, {}
        if step not in self.table:
            done = (step - c.warmup_steps) / max(c.max_steps - c.warmup_steps, 1)
            fall = c.min_lr + 0.5 * (c.lr - c.min_lr) * (1 + math.cos(math.pi * done))
            self.table[step] = c.lr * (step + 1) / c.warmup_steps if step < c.warmup_steps else fall
        return self.table[step]
