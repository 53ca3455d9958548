# Answers to the exercise mini-fsdp.

# %% right in the order of a step
class ShardedModule(FlatModule):
    def forward(self, *args):
        full = Unshard.apply(self.shard, self)
        self.full = full.detach()
        with self.using(full):
            out = self.module(*self.cast(args))
        if self.reshard_after_forward or not torch.is_grad_enabled():
            self.full = None
        return out

    def gather(self):
        return all_gather(self.shard.detach().to(self.dtype), self.group)

    def whole(self):
        if self.full is None:
            self.full = self.gather()
        return self.full

    def scatter(self, grad):
        self.full = None
        R = place(self.group)[1]
        return (reduce_scatter(grad.float(), self.group) / R).to(self.shard.dtype)

# %% right divided before, a list of collectives of torch
class ShardedModule(FlatModule):
    def gather(self):
        with torch.no_grad():
            part = self.shard.to(self.dtype)
            full = part.new_empty(place(self.group)[1] * len(part))
            if not dist.is_initialized():
                return part.clone()
            dist.all_gather(list(full.chunk(place(self.group)[1])), part, group=self.group)
        return full

    def whole(self):
        self.full = self.gather() if self.full is None else self.full
        return self.full

    def forward(self, *args):
        full = Unshard.apply(self.shard, self)
        self.full = full.detach()
        with self.using(full):
            out = self.module(*self.cast(args))
        stays = torch.is_grad_enabled() and not self.reshard_after_forward
        self.full = self.full if stays else None
        return out

    def scatter(self, grad):
        mean = reduce_scatter(grad.to(torch.float32) / place(self.group)[1], self.group)
        self.full = None
        return mean.to(self.shard.dtype)

# %% right freed by del in the forward pass
class ShardedModule(FlatModule):
    def forward(self, *args):
        full = Unshard.apply(self.shard, self)
        self.full = full.detach()
        with self.using(full):
            out = self.module(*self.cast(args))
        del full
        if not (torch.is_grad_enabled() and not self.reshard_after_forward):
            self.full = None
        return out

    def gather(self):
        return all_gather(self.shard.data.to(self.dtype), self.group)

    def whole(self):
        if self.full is not None:
            return self.full
        self.full = self.gather()
        return self.full

    def scatter(self, grad):
        total = reduce_scatter(grad.float(), self.group)
        total /= dist.get_world_size(self.group) if dist.is_initialized() else 1
        self.full = None
        return total.to(self.shard.dtype)

# %% wrong STUB untouched
class ShardedModule(FlatModule):
    def forward(self, *args):
        raise NotImplementedError("your code here")

    def gather(self):
        raise NotImplementedError("your code here")

    def whole(self):
        raise NotImplementedError("your code here")

    def scatter(self, grad):
        raise NotImplementedError("your code here")

# %% wrong FSDP-NEVER-FREES full stays after forward
class ShardedModule(ShardedModule):
    def forward(self, *args):
        full = Unshard.apply(self.shard, self)
        self.full = full.detach()
        with self.using(full):
            return self.module(*self.cast(args))

# %% wrong FSDP-NO-GATHER the graph keeps the weights, no gather in backward
class ShardedModule(ShardedModule):
    def forward(self, *args):
        full = Unshard.apply(self.shard, self)
        with self.using(full):
            out = self.module(*self.cast(args))
        if not self.reshard_after_forward and torch.is_grad_enabled():
            self.full = full.detach()
        return out

# %% wrong FSDP-ALIAS a second name for what was gathered
class ShardedModule(ShardedModule):
    def gather(self):
        self.buffer = all_gather(self.shard.detach().to(self.dtype), self.group)
        return self.buffer

# %% wrong FSDP-ALIAS a copy stays for the next step
class ShardedModule(ShardedModule):
    def forward(self, *args):
        out = super().forward(*args)
        self.last = self.gather()
        return out

# %% wrong FSDP-NO-DIVIDE a sum over the ranks
class ShardedModule(ShardedModule):
    def scatter(self, grad):
        self.full = None
        return reduce_scatter(grad.float(), self.group).to(self.shard.dtype)

# %% wrong FSDP-DIVIDE-TWICE a mean of a mean
class ShardedModule(ShardedModule):
    def scatter(self, grad):
        return super().scatter(grad) / place(self.group)[1]

# %% wrong FSDP-SHARDS-NOTHING the whole model on each rank
class ShardedModule(ShardedModule):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.shard = nn.Parameter(all_gather(self.shard.detach(), self.group))

    def gather(self):
        return self.shard.detach().to(self.dtype)

    def scatter(self, grad):
        self.full = None
        dist.all_reduce(grad) if dist.is_initialized() else None
        return grad / place(self.group)[1]

# %% wrong FSDP-ALL-REDUCE all-reduce, then cut
class ShardedModule(ShardedModule):
    def scatter(self, grad):
        self.full = None
        rank, R = place(self.group)
        grad = grad.float()
        if R > 1:
            dist.all_reduce(grad, group=self.group)
        return grad.chunk(R)[rank] / R

# %% wrong FSDP-GATHER-EACH one gather for every weight
class ShardedModule(ShardedModule):
    def whole(self):
        return self.gather() if self.full is None else self.full

# %% wrong FSDP-GATHER-WIDE float32 travels
class ShardedModule(ShardedModule):
    def gather(self):
        return all_gather(self.shard.detach(), self.group).to(self.dtype)

# %% wrong FSDP-REDUCE-LOW bfloat16 is added up
class ShardedModule(ShardedModule):
    def scatter(self, grad):
        self.full = None
        return (reduce_scatter(grad, self.group) / place(self.group)[1]).to(self.shard.dtype)

# %% wrong FSDP-AFTER-BACKWARD kept for the next step
class ShardedModule(ShardedModule):
    def scatter(self, grad):
        return (reduce_scatter(grad.float(), self.group) / place(self.group)[1]).to(self.shard.dtype)

# %% wrong FSDP-RESHARD always freed
class ShardedModule(ShardedModule):
    def forward(self, *args):
        out = super().forward(*args)
        self.full = None
        return out

# %% wrong FSDP-EVAL kept without a backward pass
class ShardedModule(ShardedModule):
    def forward(self, *args):
        full = Unshard.apply(self.shard, self)
        self.full = full.detach()
        with self.using(full):
            out = self.module(*self.cast(args))
        if self.reshard_after_forward:
            self.full = None
        return out

# %% wrong FSDP-NO-GRADIENT gathered outside of the graph
class ShardedModule(ShardedModule):
    def forward(self, *args):
        full = self.gather()
        self.full = full
        with self.using(full.requires_grad_()):
            out = self.module(*self.cast(args))
        if self.reshard_after_forward or not torch.is_grad_enabled():
            self.full = None
        return out

# %% wrong FSDP-GROUP the ranks of the world | of: in the order of a step
- R = place(self.group)[1]
+ R = place()[1]

# %% wrong FSDP-MEAN-LOW back to the dtype of the gradient | of: in the order of a step
- return (reduce_scatter(grad.float(), self.group) / R).to(self.shard.dtype)
+ return (reduce_scatter(grad.float(), self.group) / R).to(grad.dtype).to(self.shard.dtype)

# %% wrong DTYPE the mean stays float32 whatever the shard is | of: in the order of a step
- return (reduce_scatter(grad.float(), self.group) / R).to(self.shard.dtype)
+ return reduce_scatter(grad.float(), self.group) / R

# %% wrong FSDP-GRAPH gathered inside the graph | of: in the order of a step
- return all_gather(self.shard.detach().to(self.dtype), self.group)
+ return all_gather(self.shard.detach().to(self.dtype), self.group).requires_grad_()

# %% wrong RAISED a float input stays float32 | of: in the order of a step
- out = self.module(*self.cast(args))
+ out = self.module(*args)

# %% wrong INPLACE the gradient divided in place where it is float32 | of: in the order of a step
- return (reduce_scatter(grad.float(), self.group) / R).to(self.shard.dtype)
+ return reduce_scatter(grad.float().div_(R), self.group).to(self.shard.dtype)

# %% wrong FSDP-STALE what is still there need not travel again | of: in the order of a step
- return all_gather(self.shard.detach().to(self.dtype), self.group)
+ kept = self.full is not None and not self.reshard_after_forward
+ return self.full if kept else all_gather(self.shard.detach().to(self.dtype), self.group)

# %% wrong FSDP-STALE kept weights serve evaluation | of: in the order of a step
- return all_gather(self.shard.detach().to(self.dtype), self.group)
+ if self.full is not None and not (torch.is_grad_enabled() and self.training):
+     return self.full.clone()
+ return all_gather(self.shard.detach().to(self.dtype), self.group)

# %% wrong FSDP-STALE gathered again when the shard is another tensor | of: in the order of a step
- return all_gather(self.shard.detach().to(self.dtype), self.group)
+ if self.full is not None and self.seen == self.shard.data_ptr():
+     return self.full
+ self.seen = self.shard.data_ptr()
+ return all_gather(self.shard.detach().to(self.dtype), self.group)

# %% wrong FSDP-FROZEN kept where the gathered weights need a gradient | of: freed by del in the forward pass
-     del full
-     if not (torch.is_grad_enabled() and not self.reshard_after_forward):
+     if self.reshard_after_forward or not full.requires_grad:
