# Answers to the exercise train-step.

# %% right sums in the loss, one division
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
        num_tokens = self.sum_over_ranks(sum(int((t != IGNORED).sum()) for _, t in batches))
        if num_tokens == 0:
            raise ValueError("nothing to learn from")
        lr = self.get_lr(self.step)
        for group in self.optimizer.param_groups:
            group.update(lr=lr)
        self.optimizer.zero_grad()
        loss = torch.zeros((), dtype=torch.float64)
        for idx, targets in self.micro_batches(batches):
            nats = self.mean_loss(idx, targets) * (targets != IGNORED).sum()
            self.backward(nats / num_tokens)
            loss += nats.detach().double().cpu() / num_tokens
        self.scaler.unscale_(self.optimizer)
        if self.config.grad_clip > 0:
            norm = torch.nn.utils.clip_grad_norm_(self.plain_model.parameters(), self.config.grad_clip)
        else:
            norm = torch.nn.utils.get_total_norm([p.grad for p in self.plain_model.parameters()])
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=False)
        self.step, self.tokens_seen = self.step + 1, self.tokens_seen + int(num_tokens)
        return dict(loss=self.sum_over_ranks(loss), grad_norm=float(norm), lr=lr)

# %% right clipping by hand, a count in each turn
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
        everybodys = int(self.sum_over_ranks(sum((t != -100).sum().item() for _, t in batches)))
        if everybodys < 1:
            raise ValueError("no target counts")
        rate = self.get_lr(self.step)
        for i in range(len(self.optimizer.param_groups)):
            self.optimizer.param_groups[i]["lr"] = rate
        loss = 0.0
        for idx, targets in self.micro_batches(batches):
            count = (targets != -100).sum().item()
            mean = self.mean_loss(idx, targets)
            self.backward(mean * (count / everybodys))
            loss += mean.item() * count / everybodys
        self.scaler.unscale_(self.optimizer)
        params = [p for p in self.model.parameters() if p.grad is not None]
        norm = sum(p.grad.pow(2).sum() for p in params).sqrt()
        if self.config.grad_clip and norm > self.config.grad_clip:
            for p in params:
                p.grad *= self.config.grad_clip / norm
        self.scaler.step(self.optimizer)
        self.scaler.update()
        for p in params:
            p.grad = None
        self.step += 1
        self.tokens_seen += everybodys
        return {"lr": rate, "loss": self.sum_over_ranks(loss), "grad_norm": norm.item()}

# %% right gradients divided at the end
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
        seen, nats = self.sum_over_ranks(sum(int((t != -100).sum()) for _, t in batches)), 0.0
        if not seen:
            raise ValueError(f"none of the targets counts: all are {IGNORED}")
        lr = self.get_lr(self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        for idx, targets in self.micro_batches(batches):
            count = int((targets != -100).sum())
            loss = self.mean_loss(idx, targets) * count
            self.backward(loss)
            nats += loss.item()
        nats = self.sum_over_ranks(nats)
        for p in self.plain_model.parameters():
            p.grad /= seen
        self.scaler.unscale_(self.optimizer)
        norm = torch.nn.utils.clip_grad_norm_(self.plain_model.parameters(), self.config.grad_clip or 1e30)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        self.step += 1
        self.tokens_seen += int(seen)
        return {"loss": nats / seen, "grad_norm": norm.item(), "lr": lr}

# %% right nothing is read, and the loss keeps its graph
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
        counts = [(targets != IGNORED).sum() for _, targets in batches]
        num_tokens = self.sum_over_ranks(sum(counts))
        if not num_tokens:
            raise ValueError("no target counts")
        lr = self.get_lr(self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        parts = []
        for count, (idx, targets) in zip(counts, self.micro_batches(batches)):
            parts.append(self.mean_loss(idx, targets) * count / num_tokens)
            self.backward(parts[-1])
        self.scaler.unscale_(self.optimizer)
        norm = torch.nn.utils.clip_grad_norm_(self.plain_model.parameters(), self.config.grad_clip or math.inf)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        self.step, self.tokens_seen = self.step + 1, self.tokens_seen + int(num_tokens)
        return {"loss": self.sum_over_ranks(sum(parts)), "grad_norm": norm, "lr": lr}

# %% right shares first, then the loop
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
        counts = [int((targets != -100).sum()) for _, targets in batches]
        num_tokens = self.sum_over_ranks(sum(counts))
        if not num_tokens:
            raise ValueError("no target counts on any rank")
        lr = self.get_lr(self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        total = 0.0
        for count, (idx, targets) in zip(counts, self.micro_batches(batches)):
            part = self.mean_loss(idx, targets) * count / num_tokens
            self.backward(part)
            total += part.item()
        self.scaler.unscale_(self.optimizer)
        limit = self.config.grad_clip or math.inf
        norm = torch.nn.utils.clip_grad_norm_(self.plain_model.parameters(), limit)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1
        self.tokens_seen += int(num_tokens)
        return {"loss": self.sum_over_ranks(total), "grad_norm": norm.item(), "lr": lr}

# %% wrong STUB untouched
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
        raise NotImplementedError("your code here")

# %% wrong NONE no return
- return {"loss": self.sum_over_ranks(total), "grad_norm": norm.item(), "lr": lr}
+ found = {"loss": self.sum_over_ranks(total), "grad_norm": norm.item(), "lr": lr}

# %% wrong TYPE the loss alone
- return {"loss": self.sum_over_ranks(total), "grad_norm": norm.item(), "lr": lr}
+ return total

# %% wrong TYPE a norm of each parameter
- return {"loss": self.sum_over_ranks(total), "grad_norm": norm.item(), "lr": lr}
+ return {"loss": self.sum_over_ranks(total), "grad_norm": torch.stack([norm, norm]), "lr": lr}

# %% wrong TRAIN-KEYS another name for the norm
- return {"loss": self.sum_over_ranks(total), "grad_norm": norm.item(), "lr": lr}
+ return {"loss": self.sum_over_ranks(total), "norm": norm.item(), "lr": lr}

# %% wrong TRAIN-NO-STEP no step of the optimizer
- self.scaler.step(self.optimizer)

# %% wrong TRAIN-NO-STEP cleared between clipping and step
  norm = torch.nn.utils.clip_grad_norm_(self.plain_model.parameters(), limit)
+ self.optimizer.zero_grad(set_to_none=False)

- self.optimizer.zero_grad(set_to_none=True)

# %% wrong TRAIN-CLEARED cleared before clipping
      total += part.item()
+ self.optimizer.zero_grad()

- self.optimizer.zero_grad(set_to_none=True)

# %% wrong TRAIN-SUM mean losses added, not divided
- part = self.mean_loss(idx, targets) * count / num_tokens
+ part = self.mean_loss(idx, targets)

# %% wrong TRAIN-SUM sums of losses, not divided
- part = self.mean_loss(idx, targets) * count / num_tokens
+ part = self.mean_loss(idx, targets) * count

# %% wrong TRAIN-MEAN-OF-MEANS divided by the number of micro-batches
- part = self.mean_loss(idx, targets) * count / num_tokens
+ part = self.mean_loss(idx, targets) / len(batches)

# %% wrong TRAIN-MEAN-OF-MEANS divided by grad_accumulation
- part = self.mean_loss(idx, targets) * count / num_tokens
+ part = self.mean_loss(idx, targets) / self.accumulation

# %% wrong TRAIN-POSITIONS targets of -100 counted
- counts = [int((targets != -100).sum()) for _, targets in batches]
+ counts = [targets.numel() for _, targets in batches]

# %% wrong TRAIN-TWICE shares divided by k once more
- part = self.mean_loss(idx, targets) * count / num_tokens
+ part = self.mean_loss(idx, targets) * count / num_tokens / len(batches)

# %% wrong TRAIN-LAST-ONLY cleared before each backward
  part = self.mean_loss(idx, targets) * count / num_tokens
+ self.optimizer.zero_grad()

# %% wrong TRAIN-LAST-ONLY backward after the loop
-     self.backward(part)
      total += part.item()
+ self.backward(part)

# %% wrong TRAIN-FIRST-ONLY leaves the loop after one turn
  total += part.item()
+ break

# %% wrong TRAIN-LOSS the loss of the last micro-batch
- total += part.item()
+ total = self.mean_loss(idx, targets).item()

# %% wrong TRAIN-LOSS the mean of means in the log
- total += part.item()
+ total += self.mean_loss(idx, targets).item() / len(batches)

# %% wrong TRAIN-CAT one big batch after all
- for count, (idx, targets) in zip(counts, self.micro_batches(batches)):
-     part = self.mean_loss(idx, targets) * count / num_tokens
-     self.backward(part)
-     total += part.item()
+ part = self.mean_loss(torch.cat([i for i, _ in batches]), torch.cat([t for _, t in batches]))
+ self.backward(part)
+ total = part.item()

# %% wrong TRAIN-EMPTY the model's loss, nan for a part that counts nothing
- part = self.mean_loss(idx, targets) * count / num_tokens
+ part = self.model(idx, targets)[1] * count / num_tokens

# %% wrong TRAIN-STEP-EACH step and clear inside the loop
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
        lr = self.get_lr(self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        counts = [int((targets != -100).sum()) for _, targets in batches]
        num_tokens = self.sum_over_ranks(sum(counts))
        total = 0.0
        for count, (idx, targets) in zip(counts, self.micro_batches(batches)):
            part = self.mean_loss(idx, targets)
            self.backward(part)
            total += part.item() / len(batches)
            self.scaler.unscale_(self.optimizer)
            limit = self.config.grad_clip or math.inf
            norm = torch.nn.utils.clip_grad_norm_(self.plain_model.parameters(), limit)
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.optimizer.zero_grad(set_to_none=True)
        self.step += 1
        self.tokens_seen += int(num_tokens)
        return {"loss": self.sum_over_ranks(total), "grad_norm": norm.item(), "lr": lr}

# %% wrong TRAIN-NO-ZERO gradients never cleared
- self.optimizer.zero_grad(set_to_none=True)

# %% wrong TRAIN-LR-NEXT the rate of the next step
- lr = self.get_lr(self.step)
+ lr = self.get_lr(self.step + 1)

# %% wrong TRAIN-LR-NEXT counts first
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
        self.step += 1
        lr = self.get_lr(self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        counts = [int((targets != -100).sum()) for _, targets in batches]
        num_tokens = self.sum_over_ranks(sum(counts))
        total = 0.0
        for count, (idx, targets) in zip(counts, self.micro_batches(batches)):
            part = self.mean_loss(idx, targets) * count / num_tokens
            self.backward(part)
            total += part.item()
        self.scaler.unscale_(self.optimizer)
        limit = self.config.grad_clip or math.inf
        norm = torch.nn.utils.clip_grad_norm_(self.plain_model.parameters(), limit)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        self.tokens_seen += int(num_tokens)
        return {"loss": self.sum_over_ranks(total), "grad_norm": norm.item(), "lr": lr}

# %% wrong TRAIN-LR-STUCK the step is not counted
- self.step += 1

# %% wrong TRAIN-MICRO-STEPS counts micro-batches
- self.step += 1
+ self.step += len(batches)

# %% wrong TRAIN-LR-CONSTANT no schedule
- lr = self.get_lr(self.step)
+ lr = self.config.lr

# %% wrong TRAIN-LR-UNSET the rate is told, not set
- for group in self.optimizer.param_groups:
-     group["lr"] = lr

# %% wrong TRAIN-LR-GROUP the first group alone
- for group in self.optimizer.param_groups:
-     group["lr"] = lr
+ self.optimizer.param_groups[0]["lr"] = lr

# %% wrong TRAIN-LR-LATE the rate is set after the step
- for group in self.optimizer.param_groups:
-     group["lr"] = lr

  self.scaler.update()
+ for group in self.optimizer.param_groups:
+     group["lr"] = lr

# %% wrong TRAIN-TOKENS positions counted as tokens
- self.tokens_seen += int(num_tokens)
+ self.tokens_seen += sum(t.numel() for _, t in batches)

# %% wrong TRAIN-TOKENS tokens not counted
- self.tokens_seen += int(num_tokens)

# %% wrong TRAIN-NO-CLIP measured, not clipped
- norm = torch.nn.utils.clip_grad_norm_(self.plain_model.parameters(), limit)
+ norm = torch.nn.utils.clip_grad_norm_(self.plain_model.parameters(), math.inf)

# %% wrong TRAIN-NO-CLIP clipped after the step
- norm = torch.nn.utils.clip_grad_norm_(self.plain_model.parameters(), limit)
  self.scaler.step(self.optimizer)
  self.scaler.update()
+ norm = torch.nn.utils.clip_grad_norm_(self.plain_model.parameters(), limit)

# %% wrong TRAIN-CLIP-EACH every parameter by itself
- norm = torch.nn.utils.clip_grad_norm_(self.plain_model.parameters(), limit)
+ norm = torch.nn.utils.get_total_norm([p.grad for p in self.plain_model.parameters()])
+ for p in self.plain_model.parameters():
+     torch.nn.utils.clip_grad_norm_(p, limit)

# %% wrong TRAIN-CLIP-VALUE clip_grad_value_
- norm = torch.nn.utils.clip_grad_norm_(self.plain_model.parameters(), limit)
+ norm = torch.nn.utils.get_total_norm([p.grad for p in self.plain_model.parameters()])
+ torch.nn.utils.clip_grad_value_(self.plain_model.parameters(), limit)

# %% wrong TRAIN-CLIP-INSIDE clips after each micro-batch
      total += part.item()
+     limit = self.config.grad_clip or math.inf
+     norm = torch.nn.utils.clip_grad_norm_(self.plain_model.parameters(), limit)
  self.scaler.unscale_(self.optimizer)
- limit = self.config.grad_clip or math.inf
- norm = torch.nn.utils.clip_grad_norm_(self.plain_model.parameters(), limit)

# %% wrong TRAIN-NORM-AFTER the norm after clipping
- return {"loss": self.sum_over_ranks(total), "grad_norm": norm.item(), "lr": lr}
+ return {"loss": self.sum_over_ranks(total), "grad_norm": min(norm.item(), limit), "lr": lr}

# %% wrong TRAIN-CLIP-ZERO 0 taken for a limit
- limit = self.config.grad_clip or math.inf
+ limit = self.config.grad_clip

# %% wrong TRAIN-UNSCALED no unscale_
- self.scaler.unscale_(self.optimizer)

# %% wrong TRAIN-UNSCALED unscaled after clipping
- self.scaler.unscale_(self.optimizer)
  limit = self.config.grad_clip or math.inf
  norm = torch.nn.utils.clip_grad_norm_(self.plain_model.parameters(), limit)
+ self.scaler.unscale_(self.optimizer)

# %% wrong TRAIN-SCALER no scaler.update
- self.scaler.update()

# %% wrong TRAIN-BARE backward by hand
- self.backward(part)
+ part.backward()

# %% wrong TRAIN-CLIP-GROUPS each group by its own norm
- norm = torch.nn.utils.clip_grad_norm_(self.plain_model.parameters(), limit)
+ norm = torch.nn.utils.get_total_norm([p.grad for p in self.plain_model.parameters()])
+ for group in self.optimizer.param_groups:
+     torch.nn.utils.clip_grad_norm_(group["params"], limit)

# %% wrong TRAIN-LOCAL-COUNTS the model itself, its own targets, empty parts passed over
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
        rate = self.get_lr(self.step)
        self.optimizer.param_groups[0]["lr"] = self.optimizer.param_groups[1]["lr"] = rate
        n = [(t != -100).sum().item() for _, t in batches]
        loss = 0.0
        for count, (idx, targets) in zip(n, batches):
            if count == 0:
                continue
            logits, mean = self.model(idx, targets)
            (mean * (count / sum(n))).backward()
            loss += mean.item() * count / sum(n)
        params = [p for p in self.model.parameters() if p.grad is not None]
        norm = sum(p.grad.pow(2).sum() for p in params).sqrt()
        if self.config.grad_clip and norm > self.config.grad_clip:
            for p in params:
                p.grad *= self.config.grad_clip / norm
        self.optimizer.step()
        for p in params:
            p.grad = None
        self.step += 1
        self.tokens_seen += sum(n)
        return {"lr": rate, "loss": loss, "grad_norm": norm.item()}

# %% wrong TRAIN-LOCAL-COUNTS shares within a rank | of: shares first, then the loop
- num_tokens = self.sum_over_ranks(sum(counts))
+ num_tokens = sum(counts)

# %% wrong TRAIN-RANK-MEAN the mean of DDP stays a mean | of: shares first, then the loop
- self.backward(part)
+ self.scaler.scale(part).backward()

# %% wrong TRAIN-NOT-SHARED past DDP | of: shares first, then the loop
- part = self.mean_loss(idx, targets) * count / num_tokens
+ mean = self.plain_model(idx, targets)[1] if count else 0.0 * self.plain_model(idx)[0].sum()
+ part = mean * count / num_tokens

# %% wrong TRAIN-LOCAL-LOSS the loss of this rank | of: shares first, then the loop
- return {"loss": self.sum_over_ranks(total), "grad_norm": norm.item(), "lr": lr}
+ return {"loss": total, "grad_norm": norm.item(), "lr": lr}

# %% wrong TRAIN-TOKENS the targets of this rank | of: shares first, then the loop
- self.tokens_seen += int(num_tokens)
+ self.tokens_seen += sum(counts)

# %% wrong TRAIN-SENT-AGAIN an all-reduce of the gradients for each micro-batch | of: shares first, then the loop
- for count, (idx, targets) in zip(counts, self.micro_batches(batches)):
+ for count, (idx, targets) in zip(counts, batches):

# %% wrong TRAIN-TRAFFIC the loss is summed in every turn | of: shares first, then the loop
- total += part.item()
+ total += self.sum_over_ranks(part.item())

- return {"loss": self.sum_over_ranks(total), "grad_norm": norm.item(), "lr": lr}
+ return {"loss": total, "grad_norm": norm.item(), "lr": lr}

# %% wrong TRAIN-GRAPHS one backward pass for all | of: shares first, then the loop
-     self.backward(part)
-     total += part.item()
+     total = total + part
+ self.backward(total)

- return {"loss": self.sum_over_ranks(total), "grad_norm": norm.item(), "lr": lr}
+ return {"loss": self.sum_over_ranks(total.item()), "grad_norm": norm.item(), "lr": lr}

# %% wrong TRAIN-APART rank 0 alone makes the step | of: shares first, then the loop
- self.scaler.step(self.optimizer)
+ if self.world.is_first:
+     self.scaler.step(self.optimizer)

# %% wrong INPLACE takes the micro-batches out of the list | of: shares first, then the loop
- return {"loss": self.sum_over_ranks(total), "grad_norm": norm.item(), "lr": lr}
+ batches.clear()
+ return {"loss": self.sum_over_ranks(total), "grad_norm": norm.item(), "lr": lr}

# %% wrong TRAIN-RANK-EMPTY a rank without targets refuses alone | of: shares first, then the loop
- if not num_tokens:
+ if not sum(counts):

# %% wrong TRAIN-NOTHING goes on with nothing | of: shares first, then the loop
- if not num_tokens:
-     raise ValueError("no target counts on any rank")
+ num_tokens = num_tokens or 1.0

# %% wrong TRAIN-NOTHING refuses by another error | of: shares first, then the loop
- if not num_tokens:
-     raise ValueError("no target counts on any rank")

# %% wrong TRAIN-HALF the rate is set before the refusal | of: shares first, then the loop
- if not num_tokens:
-     raise ValueError("no target counts on any rank")

      group["lr"] = lr
+ if not num_tokens:
+     raise ValueError("no target counts on any rank")

# %% wrong TRAIN-STEPS the step is 1 after any update | of: shares first, then the loop
- self.step += 1
+ self.step = 1

# %% wrong TRAIN-NORM-NO-LIMIT no norm without a limit | of: shares first, then the loop
- limit = self.config.grad_clip or math.inf
- norm = torch.nn.utils.clip_grad_norm_(self.plain_model.parameters(), limit)
+ norm = torch.zeros(())
+ if self.config.grad_clip:
+     norm = torch.nn.utils.clip_grad_norm_(self.plain_model.parameters(), self.config.grad_clip)

# %% wrong TRAIN-GRAD-LEFT clears at the beginning alone | of: shares first, then the loop
- self.optimizer.zero_grad(set_to_none=True)

- total = 0.0
+ total = 0.0
+ self.optimizer.zero_grad(set_to_none=True)

# %% wrong TRAIN-LR-GROUP two groups by number | of: shares first, then the loop
- for group in self.optimizer.param_groups:
-     group["lr"] = lr
+ self.optimizer.param_groups[0]["lr"] = self.optimizer.param_groups[1]["lr"] = lr

# %% wrong TRAIN-OWN-COUNT a count of its own | of: shares first, then the loop
- lr = self.get_lr(self.step)
+ self.done = getattr(self, "done", -1) + 1
+ lr = self.get_lr(self.done)

# %% wrong TRAIN-TOKENS a tensor for a count | of: shares first, then the loop
- self.tokens_seen += int(num_tokens)
+ self.tokens_seen += torch.tensor(int(num_tokens))

# %% wrong TRAIN-OWN-COUNT tokens counted from its first call | of: shares first, then the loop
- self.tokens_seen += int(num_tokens)
+ self.seen = getattr(self, "seen", 0) + int(num_tokens)
+ self.tokens_seen = self.seen

# %% wrong RAISED targets flattened by view | of: shares first, then the loop
- counts = [int((targets != -100).sum()) for _, targets in batches]
+ counts = [int((targets.view(-1) != -100).sum()) for _, targets in batches]

# %% wrong TRAIN-RAISES clip_grad_norm_ that refuses
- norm = torch.nn.utils.clip_grad_norm_(self.plain_model.parameters(), limit)
+ norm = torch.nn.utils.clip_grad_norm_(self.plain_model.parameters(), limit, error_if_nonfinite=True)

# %% wrong TRAIN-RAISES a loss that is looked at
      total += part.item()
+ if not math.isfinite(total):
+     raise ValueError("the loss is not finite")

# %% wrong TRAIN-HIDDEN nan_to_num in the gradients
  self.scaler.unscale_(self.optimizer)
+ for p in self.plain_model.parameters():
+     p.grad.nan_to_num_(posinf=0.0, neginf=0.0)

# %% wrong TRAIN-HIDDEN the loss of parts that are finite
- total += part.item()
+ total += part.item() if math.isfinite(part.item()) else 0.0

# %% wrong TRAIN-SKIPPED an update that is not finite is left out
  norm = torch.nn.utils.clip_grad_norm_(self.plain_model.parameters(), limit)
+ if not norm.isfinite():
+     self.scaler.update()
+     self.optimizer.zero_grad(set_to_none=True)
+     return {"loss": self.sum_over_ranks(total), "grad_norm": norm.item(), "lr": lr}

# %% wrong TRAIN-OVERFLOW the optimizer's own step
- self.scaler.step(self.optimizer)
+ self.optimizer.step()

# %% wrong TRAIN-BARE no scaler at all
- self.scaler.unscale_(self.optimizer)

- self.scaler.step(self.optimizer)
- self.scaler.update()
+ self.optimizer.step()

- self.backward(part)
+ (part * self.world.world_size).backward()
