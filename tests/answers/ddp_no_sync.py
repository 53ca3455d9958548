# Answers to the exercise ddp-no-sync.

# %% right try and finally
class Replica(ddp.Replica):
    @contextlib.contextmanager
    def no_sync(self):
        was = self.syncing
        try:
            self.syncing = False
            yield
        finally:
            self.syncing = was

# %% right a stack of callbacks
class Replica(ddp.Replica):
    @contextlib.contextmanager
    def no_sync(self):
        with contextlib.ExitStack() as stack:
            stack.callback(setattr, self, "syncing", self.syncing)
            self.syncing = False
            yield

# %% right a context of its own
class Quiet:
    def __init__(self, replica):
        self.replica = replica

    def __enter__(self):
        self.before, self.replica.syncing = self.replica.syncing, False

    def __exit__(self, *error):
        self.replica.syncing = self.before


class Replica(ddp.Replica):
    def no_sync(self):
        return Quiet(self)

# %% wrong STUB untouched
class Replica(ddp.Replica):
    @contextlib.contextmanager
    def no_sync(self):
        raise NotImplementedError("your code here")
        yield

# %% wrong NOSYNC-NOTHING an empty context
class Replica(ddp.Replica):
    @contextlib.contextmanager
    def no_sync(self):
        yield

# %% wrong NOSYNC-STAYS never switched on again
class Replica(ddp.Replica):
    @contextlib.contextmanager
    def no_sync(self):
        self.syncing = False
        yield

# %% wrong NOSYNC-NESTED True at every end
class Replica(ddp.Replica):
    @contextlib.contextmanager
    def no_sync(self):
        self.syncing = False
        try:
            yield
        finally:
            self.syncing = True

# %% wrong NOSYNC-ERROR no finally
class Replica(ddp.Replica):
    @contextlib.contextmanager
    def no_sync(self):
        before, self.syncing = self.syncing, False
        yield
        self.syncing = before

# %% wrong NOSYNC-SWALLOWS an except
class Replica(ddp.Replica):
    @contextlib.contextmanager
    def no_sync(self):
        before, self.syncing = self.syncing, False
        try:
            yield
        except Exception:
            pass
        self.syncing = before

# %% wrong NOSYNC-SENDS finishes each micro-batch
class Replica(ddp.Replica):
    @contextlib.contextmanager
    def no_sync(self):
        before, self.syncing = self.syncing, False
        try:
            yield
        finally:
            self.syncing = before
        self.finish()

# %% wrong NOSYNC-SENDS starts the buckets at the end
class Replica(ddp.Replica):
    @contextlib.contextmanager
    def no_sync(self):
        before, self.syncing = self.syncing, False
        try:
            yield
        finally:
            self.syncing = before
        while len(self.started) < len(self.buckets):
            self.start_bucket()

# %% wrong NOSYNC-LOSES clears what was added
class Replica(ddp.Replica):
    @contextlib.contextmanager
    def no_sync(self):
        before, self.syncing = self.syncing, False
        try:
            yield
        finally:
            self.syncing = before
        self.module.zero_grad()

# %% wrong NOSYNC-LOSES halves at every end
class Replica(ddp.Replica):
    @contextlib.contextmanager
    def no_sync(self):
        before, self.syncing = self.syncing, False
        try:
            yield
        finally:
            self.syncing = before
        for p in self.module.parameters():
            if p.grad is not None:
                p.grad /= 2

# %% wrong NOSYNC-EARLY switched off by the call
class Replica(ddp.Replica):
    def no_sync(self):
        stack = contextlib.ExitStack()
        stack.callback(setattr, self, "syncing", self.syncing)
        self.syncing = False
        return stack

# %% wrong NOSYNC-NESTED the other way round
class Replica(ddp.Replica):
    @contextlib.contextmanager
    def no_sync(self):
        self.syncing = not self.syncing
        try:
            yield
        finally:
            self.syncing = not self.syncing

# %% wrong NOSYNC-BEFORE counts how deep it is
class Replica(ddp.Replica):
    @contextlib.contextmanager
    def no_sync(self):
        self.depth = getattr(self, "depth", 0) + 1
        self.syncing = False
        try:
            yield
        finally:
            self.depth -= 1
            self.syncing = self.depth == 0

# %% wrong NOSYNC-OTHER one depth for all copies
class Replica(ddp.Replica):
    depth = [0]

    @contextlib.contextmanager
    def no_sync(self):
        before, self.syncing = self.syncing, False
        self.depth[0] += 1
        try:
            yield
        finally:
            self.depth[0] -= 1
            self.syncing = before and self.depth[0] == 0

# %% wrong NOSYNC-ERROR an except for Exception alone
class Replica(ddp.Replica):
    @contextlib.contextmanager
    def no_sync(self):
        before, self.syncing = self.syncing, False
        try:
            yield
        except Exception:
            self.syncing = before
            raise
        self.syncing = before

# %% wrong NOSYNC-ERROR on after an error, wherever it was
class Replica(ddp.Replica):
    @contextlib.contextmanager
    def no_sync(self):
        before, self.syncing = self.syncing, False
        try:
            yield
        except BaseException:
            self.syncing = True
            raise
        self.syncing = before

# %% wrong NOSYNC-LOSES zeros for parameters without a gradient
class Replica(ddp.Replica):
    @contextlib.contextmanager
    def no_sync(self):
        for p in self.module.parameters():
            if p.requires_grad and p.grad is None:
                p.grad = torch.zeros_like(p)
        before, self.syncing = self.syncing, False
        try:
            yield
        finally:
            self.syncing = before

# %% wrong NOSYNC-READ-EARLY what was before the call
class Replica(ddp.Replica):
    def no_sync(self):
        before = self.syncing

        @contextlib.contextmanager
        def quiet():
            self.syncing = False
            try:
                yield
            finally:
                self.syncing = before

        return quiet()

# %% wrong NOSYNC-READ-EARLY an object that looks when it is made
class Quiet:
    def __init__(self, replica):
        self.replica, self.before = replica, replica.syncing

    def __enter__(self):
        self.replica.syncing = False

    def __exit__(self, *error):
        self.replica.syncing = self.before


class Replica(ddp.Replica):
    def no_sync(self):
        return Quiet(self)

# %% wrong NOSYNC-READ-EARLY nothing to do where it was off at the call
class Replica(ddp.Replica):
    def no_sync(self):
        return self.quiet() if self.syncing else contextlib.nullcontext()

    @contextlib.contextmanager
    def quiet(self):
        before, self.syncing = self.syncing, False
        try:
            yield
        finally:
            self.syncing = before
