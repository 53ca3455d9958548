# Answers to the exercise ddp-buckets.

# %% right counts bytes up, a list a bucket
class DataParallel(Replica):
    def __init__(self, module, *, bucket_bytes=BUCKET_BYTES, group=None):
        super().__init__(module, group)
        self.buckets = self.fill_buckets(bucket_bytes)
        self.bucket_of = {p: i for i, bucket in enumerate(self.buckets) for p in bucket}
        self.start_over()
        self.attach()

    def start_over(self):
        self.missing = [set(bucket) for bucket in self.buckets]
        self.started = []

    def start_bucket(self):
        bucket = self.buckets[len(self.started)]
        flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1)
                          for p in bucket])
        work = None
        if dist.is_initialized():
            work = dist.all_reduce(flat, group=self.group, async_op=True)
        self.started.append((flat, work))

    def fill_buckets(self, bucket_bytes):
        if bucket_bytes < 1:
            raise ValueError(f"bucket_bytes must be at least 1, got {bucket_bytes}")
        buckets, size = [], 0
        for p in list(self.module.parameters())[::-1]:
            if not p.requires_grad:
                continue
            fits = size + p.nbytes <= bucket_bytes
            last = buckets[-1][0] if buckets else None
            if buckets and fits and (last.dtype, last.device) == (p.dtype, p.device):
                buckets[-1].append(p)
                size += p.nbytes
            else:
                buckets.append([p])
                size = p.nbytes
        return buckets

    def attach(self):
        broadcast_state(self.module, self.group)
        for bucket in self.buckets:
            for p in bucket:
                p.register_post_accumulate_grad_hook(self.gradient_ready)

    def gradient_ready(self, p):
        if not self.syncing:
            return
        mine = self.bucket_of[p]
        if mine < len(self.started):
            raise ValueError("a second backward pass before finish()")
        self.missing[mine].remove(p)
        for i in range(len(self.started), len(self.buckets)):
            if self.missing[i]:
                break
            self.start_bucket()

    def finish(self):
        for _ in range(len(self.buckets) - len(self.started)):
            self.start_bucket()
        for i, (flat, work) in enumerate(self.started):
            if work:
                work.wait()
            at = 0
            for p in self.buckets[i]:
                p.grad = (flat[at:at + p.numel()] / self.world_size).view_as(p)
                at += p.numel()
        self.start_over()

# %% right hooks through closures, divided before it travels
class DataParallel(Replica):
    def __init__(self, module, *, bucket_bytes=BUCKET_BYTES, group=None):
        super().__init__(module, group)
        self.buckets = self.fill_buckets(bucket_bytes)
        self.bucket_of = {p: i for i, bucket in enumerate(self.buckets) for p in bucket}
        self.start_over()
        self.attach()

    def start_over(self):
        self.missing = [set(bucket) for bucket in self.buckets]
        self.started = []

    def start_bucket(self):
        bucket = self.buckets[len(self.started)]
        grads = [torch.zeros_like(p) if p.grad is None else p.grad / self.world_size for p in bucket]
        flat = torch.cat([g.flatten() for g in grads])
        work = dist.all_reduce(flat, group=self.group, async_op=True) if dist.is_initialized() else None
        self.started.append((flat, work))

    def fill_buckets(self, bucket_bytes):
        if bucket_bytes < 1:
            raise ValueError("bucket_bytes")
        buckets, open_ = [], []
        for p in reversed([p for p in self.module.parameters() if p.requires_grad]):
            full = sum(q.nbytes for q in open_) + p.nbytes > bucket_bytes
            if open_ and (full or open_[0].dtype != p.dtype or open_[0].device != p.device):
                buckets.append(open_)
                open_ = []
            open_.append(p)
        return buckets + [open_] if open_ else buckets

    def attach(self):
        with torch.no_grad():
            for tensor in [*self.module.parameters(), *self.module.buffers()]:
                if dist.is_initialized():
                    dist.broadcast(tensor, group=self.group, group_src=0)
        for p in self.module.parameters():
            if p.requires_grad:
                p.register_post_accumulate_grad_hook(lambda p: self.gradient_ready(p))

    def gradient_ready(self, p):
        if self.syncing:
            if self.bucket_of[p] < len(self.started):
                raise ValueError("call finish() first")
            self.missing[self.bucket_of[p]] -= {p}
            while len(self.started) < len(self.missing) and self.missing[len(self.started)] == set():
                self.start_bucket()

    def finish(self):
        while len(self.started) != len(self.buckets):
            self.start_bucket()
        for bucket, (flat, work) in zip(self.buckets, self.started):
            if work is not None:
                work.wait()
            for p, part in zip(bucket, flat.split([p.numel() for p in bucket])):
                p.grad = part.clone().view_as(p)
        self.start_over()

# %% wrong STUB untouched
class DataParallel(DataParallel):
    def fill_buckets(self, bucket_bytes):
        raise NotImplementedError("your code here")

# %% wrong BUCKETS-FRONT the first layers first
class DataParallel(DataParallel):
    def fill_buckets(self, bucket_bytes):
        buckets, size = [], 0
        for p in self.module.parameters():
            if not p.requires_grad:
                continue
            if buckets and size + p.nbytes <= bucket_bytes and buckets[-1][0].dtype == p.dtype:
                buckets[-1].append(p)
                size += p.nbytes
            else:
                buckets.append([p])
                size = p.nbytes
        return buckets

# %% wrong BUCKETS-EACH a bucket for each
class DataParallel(DataParallel):
    def fill_buckets(self, bucket_bytes):
        return [[p] for p in reversed(list(self.module.parameters())) if p.requires_grad]

# %% wrong BUCKETS-ONE everything at once
class DataParallel(DataParallel):
    def fill_buckets(self, bucket_bytes):
        return [[p for p in reversed(list(self.module.parameters())) if p.requires_grad]]

# %% wrong BUCKETS-FROZEN frozen ones have a place
class DataParallel(DataParallel):
    def fill_buckets(self, bucket_bytes):
        buckets, size = [], 0
        for p in reversed(list(self.module.parameters())):
            if buckets and size + p.nbytes <= bucket_bytes and buckets[-1][0].dtype == p.dtype:
                buckets[-1].append(p)
                size += p.nbytes
            else:
                buckets.append([p])
                size = p.nbytes
        return buckets

# %% wrong BUCKETS-FROZEN frozen ones have a place and no hook
class DataParallel(DataParallel):
    def fill_buckets(self, bucket_bytes):
        buckets, size = [], 0
        for p in reversed(list(self.module.parameters())):
            if buckets and size + p.nbytes <= bucket_bytes and buckets[-1][0].dtype == p.dtype:
                buckets[-1].append(p)
                size += p.nbytes
            else:
                buckets.append([p])
                size = p.nbytes
        return buckets

    def attach(self):
        broadcast_state(self.module, self.group)
        for p in self.bucket_of:
            if p.requires_grad:
                p.register_post_accumulate_grad_hook(self.gradient_ready)

# %% wrong BUCKETS-PARAMS the last bucket is lost
class DataParallel(DataParallel):
    def fill_buckets(self, bucket_bytes):
        return super().fill_buckets(bucket_bytes)[:-1]

# %% wrong BUCKETS-DTYPE dtypes mixed
class DataParallel(DataParallel):
    def fill_buckets(self, bucket_bytes):
        buckets, size = [], 0
        for p in reversed([p for p in self.module.parameters() if p.requires_grad]):
            if not buckets or size + p.nbytes > bucket_bytes:
                buckets.append([])
                size = 0
            buckets[-1].append(p)
            size += p.nbytes
        return buckets

# %% wrong BUCKETS-OVER closed when it is over the limit
class DataParallel(DataParallel):
    def fill_buckets(self, bucket_bytes):
        buckets, size = [[]], 0
        for p in reversed([p for p in self.module.parameters() if p.requires_grad]):
            if size >= bucket_bytes or (buckets[-1] and buckets[-1][0].dtype != p.dtype):
                buckets.append([])
                size = 0
            buckets[-1].append(p)
            size += p.nbytes
        return buckets

# %% wrong BUCKETS-NO-BROADCAST every rank begins where it likes
class DataParallel(DataParallel):
    def attach(self):
        for p in self.bucket_of:
            p.register_post_accumulate_grad_hook(self.gradient_ready)

# %% wrong BUCKETS-LATE all at the end
class DataParallel(DataParallel):
    def gradient_ready(self, p):
        pass

# %% wrong BUCKETS-LATE only when nothing is missing anywhere
class DataParallel(DataParallel):
    def gradient_ready(self, p):
        if not self.syncing:
            return
        self.missing[self.bucket_of[p]].discard(p)
        if not any(self.missing):
            for _ in self.buckets:
                self.start_bucket()

# %% wrong BUCKETS-EACH an all-reduce in every hook
class DataParallel(DataParallel):
    def gradient_ready(self, p):
        if self.syncing:
            dist.all_reduce(p.grad, group=self.group)
            p.grad /= self.world_size

    def finish(self):
        pass

# %% wrong BUCKETS-WAITS waits in the hook
class DataParallel(DataParallel):
    def gradient_ready(self, p):
        before = len(self.started)
        super().gradient_ready(p)
        for _, work in self.started[before:]:
            if work is not None:
                work.wait()

# %% wrong BUCKETS-NO-WAIT never waits
class DataParallel(DataParallel):
    def finish(self):
        while len(self.started) < len(self.buckets):
            self.start_bucket()
        for bucket, (flat, work) in zip(self.buckets, self.started):
            for p, mean in zip(bucket, flat.split([p.numel() for p in bucket])):
                p.grad = (mean / self.world_size).view_as(p)
        self.start_over()

# %% wrong BUCKETS-SUM never divides
class DataParallel(DataParallel):
    def finish(self):
        self.world_size = 1
        super().finish()

# %% wrong BUCKETS-UNUSED what has not started stays
class DataParallel(DataParallel):
    def finish(self):
        for bucket, (flat, work) in zip(self.buckets, self.started):
            if work is not None:
                work.wait()
            for p, mean in zip(bucket, flat.split([p.numel() for p in bucket])):
                p.grad = (mean / self.world_size).view_as(p)
        self.start_over()

# %% wrong BUCKETS-UNUSED None stays None
class DataParallel(DataParallel):
    def finish(self):
        while len(self.started) < len(self.buckets):
            self.start_bucket()
        for bucket, (flat, work) in zip(self.buckets, self.started):
            if work is not None:
                work.wait()
            for p, mean in zip(bucket, flat.split([p.numel() for p in bucket])):
                if p.grad is not None:
                    p.grad.copy_((mean / self.world_size).view_as(p))
        self.start_over()

# %% wrong BUCKETS-ORDER whichever bucket is full first
class DataParallel(DataParallel):
    def gradient_ready(self, p):
        if not self.syncing:
            return
        full = self.bucket_of[p]
        self.missing[full].discard(p)
        if not self.missing[full]:
            at = len(self.started)
            self.buckets.insert(at, self.buckets.pop(full))
            self.missing.insert(at, self.missing.pop(full))
            self.bucket_of = {q: i for i, b in enumerate(self.buckets) for q in b}
            self.start_bucket()

# %% wrong BUCKETS-ORDER starts the next when any is full
class DataParallel(DataParallel):
    def gradient_ready(self, p):
        if not self.syncing:
            return
        self.missing[self.bucket_of[p]].discard(p)
        if not self.missing[self.bucket_of[p]]:
            self.start_bucket()

# %% wrong BUCKETS-NO-SYNC does not look at syncing
class DataParallel(DataParallel):
    def gradient_ready(self, p):
        if self.bucket_of[p] < len(self.started):
            raise ValueError("a second backward pass before finish()")
        self.missing[self.bucket_of[p]].discard(p)
        while len(self.started) < len(self.buckets) and not self.missing[len(self.started)]:
            self.start_bucket()

# %% wrong BUCKETS-STALE the second update finds the first one's buckets
class DataParallel(DataParallel):
    def finish(self):
        kept = self.start_over
        self.start_over = lambda: None
        super().finish()
        self.start_over = kept

# %% wrong BUCKETS-KEEPS the flat tensors of every update
class DataParallel(DataParallel):
    def finish(self):
        self.kept = [*getattr(self, "kept", []), *self.started]
        super().finish()

# %% wrong BUCKETS-LIMIT any number will do
class DataParallel(DataParallel):
    def fill_buckets(self, bucket_bytes):
        return super().fill_buckets(max(bucket_bytes, 1))

# %% wrong BUCKETS-TWICE a second backward pass is taken for the first
class DataParallel(DataParallel):
    def gradient_ready(self, p):
        if not self.syncing:
            return
        self.missing[self.bucket_of[p]].discard(p)
        while len(self.started) < len(self.buckets) and not self.missing[len(self.started)]:
            self.start_bucket()

# %% wrong BUCKETS-DEVICE dtypes kept apart, devices mixed
class DataParallel(DataParallel):
    def fill_buckets(self, bucket_bytes):
        if bucket_bytes < 1:
            raise ValueError("bucket_bytes")
        buckets, size = [], 0
        for p in reversed([p for p in self.module.parameters() if p.requires_grad]):
            if buckets and size + p.nbytes <= bucket_bytes and buckets[-1][0].dtype == p.dtype:
                buckets[-1].append(p)
                size += p.nbytes
            else:
                buckets.append([p])
                size = p.nbytes
        return buckets

# %% wrong BUCKETS-UNDER below the limit
class DataParallel(DataParallel):
    def fill_buckets(self, bucket_bytes):
        return super().fill_buckets(bucket_bytes - (bucket_bytes > 1))

# %% wrong BUCKETS-NO-GROUP a broadcast without asking
class DataParallel(DataParallel):
    def attach(self):
        with torch.no_grad():
            for tensor in [*self.module.parameters(), *self.module.buffers()]:
                dist.broadcast(tensor, group=self.group, group_src=0)
        for p in self.bucket_of:
            p.register_post_accumulate_grad_hook(self.gradient_ready)

# %% wrong BUCKETS-GROUP the weights of rank 0 of all
class DataParallel(DataParallel):
    def attach(self):
        broadcast_state(self.module)
        for p in self.bucket_of:
            p.register_post_accumulate_grad_hook(self.gradient_ready)

# %% wrong BUCKETS-GROUP divides by all ranks
class DataParallel(DataParallel):
    def finish(self):
        self.world_size = place()[1]
        super().finish()

# %% wrong BUCKETS-MADE every broadcast twice
class DataParallel(DataParallel):
    def attach(self):
        broadcast_state(self.module, self.group)
        super().attach()

# %% wrong BUCKETS-DELAYED one bucket for each gradient
class DataParallel(DataParallel):
    def gradient_ready(self, p):
        if not self.syncing:
            return
        if self.bucket_of[p] < len(self.started):
            raise ValueError("a second backward pass before finish()")
        self.missing[self.bucket_of[p]].discard(p)
        if len(self.started) < len(self.buckets) and not self.missing[len(self.started)]:
            self.start_bucket()

# %% wrong BUCKETS-NO-SYNC takes off what came inside no_sync
class DataParallel(DataParallel):
    def gradient_ready(self, p):
        if self.bucket_of[p] < len(self.started):
            raise ValueError("a second backward pass before finish()")
        self.missing[self.bucket_of[p]].discard(p)
        if not self.syncing:
            return
        while len(self.started) < len(self.buckets) and not self.missing[len(self.started)]:
            self.start_bucket()

# %% wrong BUCKETS-LIMIT only 0 is refused
class DataParallel(DataParallel):
    def fill_buckets(self, bucket_bytes):
        if bucket_bytes == 0:
            raise ValueError("bucket_bytes")
        return super().fill_buckets(abs(bucket_bytes))

# %% wrong BUCKETS-ITEMSIZE four bytes for every number | of: counts bytes up, a list a bucket
- fits = size + p.nbytes <= bucket_bytes
+ num_bytes = 4 * p.numel()
+ fits = size + num_bytes <= bucket_bytes

- size += p.nbytes
+ size += num_bytes

- size = p.nbytes
+ size = num_bytes

# %% wrong BUCKETS-SYNCING refuses before it asks whether gradients travel | of: counts bytes up, a list a bucket
- if not self.syncing:
-     return
- mine = self.bucket_of[p]
- if mine < len(self.started):
-     raise ValueError("a second backward pass before finish()")
+ mine = self.bucket_of[p]
+ if mine < len(self.started):
+     raise ValueError("a second backward pass before finish()")
+ if not self.syncing:
+     return
