# Answers to the exercise train-step.

# %% right shares first, then the loop
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
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
        self.step += 1
        self.tokens_seen += int(num_tokens)
        return {"loss": self.sum_over_ranks(total), "grad_norm": norm.item(), "lr": lr}

# %% right sums in the loss, one division
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
        lr = self.get_lr(self.step)
        for group in self.optimizer.param_groups:
            group.update(lr=lr)
        num_tokens = self.sum_over_ranks(sum(int((t != IGNORED).sum()) for _, t in batches))
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
        self.step, self.tokens_seen = self.step + 1, self.tokens_seen + int(num_tokens)
        return dict(loss=self.sum_over_ranks(loss), grad_norm=float(norm), lr=lr)

# %% right the model itself, empty parts passed over, clipping by hand
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

# %% right gradients divided at the end
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
        lr = self.get_lr(self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        seen, nats = 0, 0.0
        for idx, targets in self.micro_batches(batches):
            count = int((targets != -100).sum())
            loss = self.mean_loss(idx, targets) * count
            self.backward(loss)
            seen, nats = seen + count, nats + loss.item()
        seen, nats = self.sum_over_ranks(seen), self.sum_over_ranks(nats)
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

# %% wrong STUB untouched
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
        raise NotImplementedError("your code here")

# %% wrong NONE no return
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
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
        self.step += 1
        self.tokens_seen += int(num_tokens)
        found = {"loss": self.sum_over_ranks(total), "grad_norm": norm.item(), "lr": lr}

# %% wrong TYPE the loss alone
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
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
        self.step += 1
        self.tokens_seen += int(num_tokens)
        return total

# %% wrong TYPE tensors in the dict
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
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
        self.step += 1
        self.tokens_seen += int(num_tokens)
        return {"loss": self.sum_over_ranks(total), "grad_norm": norm, "lr": lr}

# %% wrong TRAIN-KEYS another name for the norm
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
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
        self.step += 1
        self.tokens_seen += int(num_tokens)
        return {"loss": self.sum_over_ranks(total), "norm": norm.item(), "lr": lr}

# %% wrong TRAIN-NO-STEP no step of the optimizer
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
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
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1
        self.tokens_seen += int(num_tokens)
        return {"loss": self.sum_over_ranks(total), "grad_norm": norm.item(), "lr": lr}

# %% wrong TRAIN-NO-STEP cleared between clipping and step
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
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
        self.optimizer.zero_grad(set_to_none=False)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.step += 1
        self.tokens_seen += int(num_tokens)
        return {"loss": self.sum_over_ranks(total), "grad_norm": norm.item(), "lr": lr}

# %% wrong TRAIN-CLEARED cleared before clipping
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
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
        self.optimizer.zero_grad()
        self.scaler.unscale_(self.optimizer)
        limit = self.config.grad_clip or math.inf
        norm = torch.nn.utils.clip_grad_norm_(self.plain_model.parameters(), limit)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.step += 1
        self.tokens_seen += int(num_tokens)
        return {"loss": self.sum_over_ranks(total), "grad_norm": norm.item(), "lr": lr}

# %% wrong TRAIN-SUM mean losses added, not divided
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

# %% wrong TRAIN-SUM sums of losses, not divided
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
        lr = self.get_lr(self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        counts = [int((targets != -100).sum()) for _, targets in batches]
        num_tokens = self.sum_over_ranks(sum(counts))
        total = 0.0
        for count, (idx, targets) in zip(counts, self.micro_batches(batches)):
            part = self.mean_loss(idx, targets) * count
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

# %% wrong TRAIN-MEAN-OF-MEANS divided by the number of micro-batches
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
        lr = self.get_lr(self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        counts = [int((targets != -100).sum()) for _, targets in batches]
        num_tokens = self.sum_over_ranks(sum(counts))
        total = 0.0
        for count, (idx, targets) in zip(counts, self.micro_batches(batches)):
            part = self.mean_loss(idx, targets) / len(batches)
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

# %% wrong TRAIN-MEAN-OF-MEANS divided by grad_accumulation
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
        lr = self.get_lr(self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        counts = [int((targets != -100).sum()) for _, targets in batches]
        num_tokens = self.sum_over_ranks(sum(counts))
        total = 0.0
        for count, (idx, targets) in zip(counts, self.micro_batches(batches)):
            part = self.mean_loss(idx, targets) / self.accumulation
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

# %% wrong TRAIN-POSITIONS targets of -100 counted
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
        lr = self.get_lr(self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        counts = [targets.numel() for _, targets in batches]
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
        self.step += 1
        self.tokens_seen += int(num_tokens)
        return {"loss": self.sum_over_ranks(total), "grad_norm": norm.item(), "lr": lr}

# %% wrong TRAIN-TWICE shares divided by k once more
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
        lr = self.get_lr(self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        counts = [int((targets != -100).sum()) for _, targets in batches]
        num_tokens = self.sum_over_ranks(sum(counts))
        total = 0.0
        for count, (idx, targets) in zip(counts, self.micro_batches(batches)):
            part = self.mean_loss(idx, targets) * count / num_tokens / len(batches)
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

# %% wrong TRAIN-LAST-ONLY cleared before each backward
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
        lr = self.get_lr(self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        counts = [int((targets != -100).sum()) for _, targets in batches]
        num_tokens = self.sum_over_ranks(sum(counts))
        total = 0.0
        for count, (idx, targets) in zip(counts, self.micro_batches(batches)):
            part = self.mean_loss(idx, targets) * count / num_tokens
            self.optimizer.zero_grad()
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

# %% wrong TRAIN-LAST-ONLY backward after the loop
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
        lr = self.get_lr(self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        counts = [int((targets != -100).sum()) for _, targets in batches]
        num_tokens = self.sum_over_ranks(sum(counts))
        total = 0.0
        for count, (idx, targets) in zip(counts, self.micro_batches(batches)):
            part = self.mean_loss(idx, targets) * count / num_tokens
            total += part.item()
        self.backward(part)
        self.scaler.unscale_(self.optimizer)
        limit = self.config.grad_clip or math.inf
        norm = torch.nn.utils.clip_grad_norm_(self.plain_model.parameters(), limit)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1
        self.tokens_seen += int(num_tokens)
        return {"loss": self.sum_over_ranks(total), "grad_norm": norm.item(), "lr": lr}

# %% wrong TRAIN-FIRST-ONLY leaves the loop after one turn
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
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
            break
        self.scaler.unscale_(self.optimizer)
        limit = self.config.grad_clip or math.inf
        norm = torch.nn.utils.clip_grad_norm_(self.plain_model.parameters(), limit)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1
        self.tokens_seen += int(num_tokens)
        return {"loss": self.sum_over_ranks(total), "grad_norm": norm.item(), "lr": lr}

# %% wrong TRAIN-LOSS the loss of the last micro-batch
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
        lr = self.get_lr(self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        counts = [int((targets != -100).sum()) for _, targets in batches]
        num_tokens = self.sum_over_ranks(sum(counts))
        total = 0.0
        for count, (idx, targets) in zip(counts, self.micro_batches(batches)):
            part = self.mean_loss(idx, targets) * count / num_tokens
            self.backward(part)
            total = self.mean_loss(idx, targets).item()
        self.scaler.unscale_(self.optimizer)
        limit = self.config.grad_clip or math.inf
        norm = torch.nn.utils.clip_grad_norm_(self.plain_model.parameters(), limit)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1
        self.tokens_seen += int(num_tokens)
        return {"loss": self.sum_over_ranks(total), "grad_norm": norm.item(), "lr": lr}

# %% wrong TRAIN-LOSS the mean of means in the log
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
        lr = self.get_lr(self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        counts = [int((targets != -100).sum()) for _, targets in batches]
        num_tokens = self.sum_over_ranks(sum(counts))
        total = 0.0
        for count, (idx, targets) in zip(counts, self.micro_batches(batches)):
            part = self.mean_loss(idx, targets) * count / num_tokens
            self.backward(part)
            total += self.mean_loss(idx, targets).item() / len(batches)
        self.scaler.unscale_(self.optimizer)
        limit = self.config.grad_clip or math.inf
        norm = torch.nn.utils.clip_grad_norm_(self.plain_model.parameters(), limit)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1
        self.tokens_seen += int(num_tokens)
        return {"loss": self.sum_over_ranks(total), "grad_norm": norm.item(), "lr": lr}

# %% wrong TRAIN-CAT one big batch after all
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
        lr = self.get_lr(self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        counts = [int((targets != -100).sum()) for _, targets in batches]
        num_tokens = self.sum_over_ranks(sum(counts))
        total = 0.0
        part = self.mean_loss(torch.cat([i for i, _ in batches]), torch.cat([t for _, t in batches]))
        self.backward(part)
        total = part.item()
        self.scaler.unscale_(self.optimizer)
        limit = self.config.grad_clip or math.inf
        norm = torch.nn.utils.clip_grad_norm_(self.plain_model.parameters(), limit)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1
        self.tokens_seen += int(num_tokens)
        return {"loss": self.sum_over_ranks(total), "grad_norm": norm.item(), "lr": lr}

# %% wrong TRAIN-EMPTY the model's loss, nan for a part that counts nothing
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
        lr = self.get_lr(self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        counts = [int((targets != -100).sum()) for _, targets in batches]
        num_tokens = self.sum_over_ranks(sum(counts))
        total = 0.0
        for count, (idx, targets) in zip(counts, self.micro_batches(batches)):
            part = self.model(idx, targets)[1] * count / num_tokens
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
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
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
        self.step += 1
        self.tokens_seen += int(num_tokens)
        return {"loss": self.sum_over_ranks(total), "grad_norm": norm.item(), "lr": lr}

# %% wrong TRAIN-LR-NEXT the rate of the next step
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
        lr = self.get_lr(self.step + 1)
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
        self.step += 1
        self.tokens_seen += int(num_tokens)
        return {"loss": self.sum_over_ranks(total), "grad_norm": norm.item(), "lr": lr}

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
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
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

# %% wrong TRAIN-MICRO-STEPS counts micro-batches
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
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
        self.step += len(batches)
        self.tokens_seen += int(num_tokens)
        return {"loss": self.sum_over_ranks(total), "grad_norm": norm.item(), "lr": lr}

# %% wrong TRAIN-LR-CONSTANT no schedule
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
        lr = self.config.lr
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
        self.step += 1
        self.tokens_seen += int(num_tokens)
        return {"loss": self.sum_over_ranks(total), "grad_norm": norm.item(), "lr": lr}

# %% wrong TRAIN-LR-UNSET the rate is told, not set
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
        lr = self.get_lr(self.step)
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
        self.step += 1
        self.tokens_seen += int(num_tokens)
        return {"loss": self.sum_over_ranks(total), "grad_norm": norm.item(), "lr": lr}

# %% wrong TRAIN-LR-GROUP the first group alone
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
        lr = self.get_lr(self.step)
        self.optimizer.param_groups[0]["lr"] = lr
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
        self.step += 1
        self.tokens_seen += int(num_tokens)
        return {"loss": self.sum_over_ranks(total), "grad_norm": norm.item(), "lr": lr}

# %% wrong TRAIN-LR-LATE the rate is set after the step
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
        lr = self.get_lr(self.step)
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
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1
        self.tokens_seen += int(num_tokens)
        return {"loss": self.sum_over_ranks(total), "grad_norm": norm.item(), "lr": lr}

# %% wrong TRAIN-TOKENS positions counted as tokens
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
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
        self.step += 1
        self.tokens_seen += sum(t.numel() for _, t in batches)
        return {"loss": self.sum_over_ranks(total), "grad_norm": norm.item(), "lr": lr}

# %% wrong TRAIN-TOKENS tokens not counted
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
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
        self.step += 1
        return {"loss": self.sum_over_ranks(total), "grad_norm": norm.item(), "lr": lr}

# %% wrong TRAIN-NO-CLIP measured, not clipped
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
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
        norm = torch.nn.utils.clip_grad_norm_(self.plain_model.parameters(), math.inf)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1
        self.tokens_seen += int(num_tokens)
        return {"loss": self.sum_over_ranks(total), "grad_norm": norm.item(), "lr": lr}

# %% wrong TRAIN-NO-CLIP clipped after the step
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
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
        self.scaler.step(self.optimizer)
        self.scaler.update()
        norm = torch.nn.utils.clip_grad_norm_(self.plain_model.parameters(), limit)
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1
        self.tokens_seen += int(num_tokens)
        return {"loss": self.sum_over_ranks(total), "grad_norm": norm.item(), "lr": lr}

# %% wrong TRAIN-CLIP-EACH every parameter by itself
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
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
        norm = torch.nn.utils.get_total_norm([p.grad for p in self.plain_model.parameters()])
        for p in self.plain_model.parameters():
            torch.nn.utils.clip_grad_norm_(p, limit)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1
        self.tokens_seen += int(num_tokens)
        return {"loss": self.sum_over_ranks(total), "grad_norm": norm.item(), "lr": lr}

# %% wrong TRAIN-CLIP-VALUE clip_grad_value_
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
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
        norm = torch.nn.utils.get_total_norm([p.grad for p in self.plain_model.parameters()])
        torch.nn.utils.clip_grad_value_(self.plain_model.parameters(), limit)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1
        self.tokens_seen += int(num_tokens)
        return {"loss": self.sum_over_ranks(total), "grad_norm": norm.item(), "lr": lr}

# %% wrong TRAIN-CLIP-INSIDE clips after each micro-batch
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
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
            limit = self.config.grad_clip or math.inf
            norm = torch.nn.utils.clip_grad_norm_(self.plain_model.parameters(), limit)
        self.scaler.unscale_(self.optimizer)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1
        self.tokens_seen += int(num_tokens)
        return {"loss": self.sum_over_ranks(total), "grad_norm": norm.item(), "lr": lr}

# %% wrong TRAIN-NORM-AFTER the norm after clipping
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
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
        self.step += 1
        self.tokens_seen += int(num_tokens)
        return {"loss": self.sum_over_ranks(total), "grad_norm": min(norm.item(), limit), "lr": lr}

# %% wrong TRAIN-CLIP-ZERO 0 taken for a limit
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
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
        limit = self.config.grad_clip
        norm = torch.nn.utils.clip_grad_norm_(self.plain_model.parameters(), limit)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1
        self.tokens_seen += int(num_tokens)
        return {"loss": self.sum_over_ranks(total), "grad_norm": norm.item(), "lr": lr}

# %% wrong TRAIN-UNSCALED no unscale_
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
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
        limit = self.config.grad_clip or math.inf
        norm = torch.nn.utils.clip_grad_norm_(self.plain_model.parameters(), limit)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1
        self.tokens_seen += int(num_tokens)
        return {"loss": self.sum_over_ranks(total), "grad_norm": norm.item(), "lr": lr}

# %% wrong TRAIN-UNSCALED unscaled after clipping
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
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
        limit = self.config.grad_clip or math.inf
        norm = torch.nn.utils.clip_grad_norm_(self.plain_model.parameters(), limit)
        self.scaler.unscale_(self.optimizer)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1
        self.tokens_seen += int(num_tokens)
        return {"loss": self.sum_over_ranks(total), "grad_norm": norm.item(), "lr": lr}

# %% wrong TRAIN-SCALER no scaler.update
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
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
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1
        self.tokens_seen += int(num_tokens)
        return {"loss": self.sum_over_ranks(total), "grad_norm": norm.item(), "lr": lr}

# %% wrong TRAIN-BARE backward by hand
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def train_step(self, batches):
        lr = self.get_lr(self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        counts = [int((targets != -100).sum()) for _, targets in batches]
        num_tokens = self.sum_over_ranks(sum(counts))
        total = 0.0
        for count, (idx, targets) in zip(counts, self.micro_batches(batches)):
            part = self.mean_loss(idx, targets) * count / num_tokens
            part.backward()
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
