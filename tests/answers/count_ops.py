# Answers to the exercise count-ops.

# %% right by what an operation is called
class Operations(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen: list[Operation] = []

    @property
    def num_bytes(self):
        return sum(operation.read + operation.written for operation in self.seen)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = {} if kwargs is None else kwargs
        result = func(*args, **kwargs)
        free = func.is_view or func._opname == "_unsafe_view" or torch.Tag.inplace_view in func.tags
        if not free and "empty" not in func._opname:
            name = func._schema.name.split("::")[1]
            new = [x for x in tensors(result) if not any(x is y for y in written_arguments(func, args, kwargs))]
            written = in_memory(written_arguments(func, args, kwargs)) + in_memory(new)
            self.seen.append(Operation(name, in_memory(tensors([*args, *kwargs.values()])), written))
        return result

# %% right counts for itself
class Operations(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen: list[Operation] = []

    @property
    def num_bytes(self):
        return sum(operation.read + operation.written for operation in self.seen)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = func(*args, **kwargs)

        def leaves(value):
            if isinstance(value, Tensor):
                return [value]
            if isinstance(value, dict):
                value = list(value.values())
            return [x for part in value for x in leaves(part)] if isinstance(value, (list, tuple)) else []

        def size(xs):
            total = 0
            for x in {id(x): x for x in xs}.values():
                numbers = 1
                for n, stride in zip(x.shape, x.stride()):
                    numbers *= 1 if stride == 0 else n
                total += numbers * x.dtype.itemsize
            return total

        inputs = leaves([args, kwargs])
        places = [x.untyped_storage().data_ptr() for x in inputs]
        fresh = [x for x in leaves(result) if x.untyped_storage().data_ptr() not in places]
        changed = written_arguments(func, args, kwargs)
        if func._opname in ("empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided"):
            return result
        if changed or fresh:
            self.seen.append(Operation(func._opname, size(inputs), size(changed + fresh)))
        return result

# %% right in plain steps
class Operations(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen: list[Operation] = []

    @property
    def num_bytes(self):
        return sum(operation.read + operation.written for operation in self.seen)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        given = tensors((args, kwargs))
        homes = {home(x) for x in given}
        made = [x for x in tensors(out) if home(x) not in homes]
        written = tensors((written_arguments(func, args, kwargs), made))
        if written and not func._opname.startswith(("empty", "new_empty")):
            self.seen.append(Operation(func._opname, in_memory(given), in_memory(written)))
        return out

# %% wrong STUB untouched
class Operations(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen: list[Operation] = []

    @property
    def num_bytes(self):
        return sum(operation.read + operation.written for operation in self.seen)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError("your code here")

# %% wrong OPS-RESULT returns nothing
- return out

# %% wrong OPS-KWARGS keywords lost
- out = func(*args, **kwargs)
+ out = func(*args) if func._opname in ('add', 'sum', 'max') else func(*args, **kwargs)

# %% wrong OPS-NOTHING notes nothing
- self.seen.append(Operation(func._opname, in_memory(given), in_memory(written)))
+ pass

# %% wrong OPS-NAME with the overload
- self.seen.append(Operation(func._opname, in_memory(given), in_memory(written)))
+ self.seen.append(Operation(str(func), in_memory(given), in_memory(written)))

# %% wrong OPS-SWAPPED written first
- self.seen.append(Operation(func._opname, in_memory(given), in_memory(written)))
+ self.seen.append(Operation(func._opname, in_memory(written), in_memory(given)))

# %% wrong OPS-ELEMENTS numbers, not bytes
- self.seen.append(Operation(func._opname, in_memory(given), in_memory(written)))
+ self.seen.append(Operation(func._opname, sum(x.numel() for x in given), sum(x.numel() for x in written)))

# %% wrong OPS-BOTH the result is read too
- self.seen.append(Operation(func._opname, in_memory(given), in_memory(written)))
+ self.seen.append(Operation(func._opname, in_memory(given) + in_memory(written), in_memory(written)))

# %% wrong OPS-FIRST-INPUT the first input alone
- self.seen.append(Operation(func._opname, in_memory(given), in_memory(written)))
+ self.seen.append(Operation(func._opname, in_memory(given[:1]), in_memory(written)))

# %% wrong OPS-ONCE each name once
- if written and not func._opname.startswith(("empty", "new_empty")):
+ if func._opname not in [o.name for o in self.seen] and written and not func._opname.startswith(("empty", "new_empty")):

# %% wrong OPS-VIEWS everything that runs
- given = tensors((args, kwargs))
- homes = {home(x) for x in given}
- made = [x for x in tensors(out) if home(x) not in homes]
- written = tensors((written_arguments(func, args, kwargs), made))
- if written and not func._opname.startswith(("empty", "new_empty")):
-     self.seen.append(Operation(func._opname, in_memory(given), in_memory(written)))
+ self.seen.append(Operation(func._opname, in_memory(tensors((args, kwargs))), in_memory(tensors(out))))

# %% wrong OPS-VIEWS asks is_view alone
class Operations(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen: list[Operation] = []

    @property
    def num_bytes(self):
        return sum(operation.read + operation.written for operation in self.seen)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if not func.is_view and "empty" not in func._opname:
            written = tensors((written_arguments(func, args, kwargs), out))
            self.seen.append(Operation(func._opname, in_memory(tensors((args, kwargs))), in_memory(written)))
        return out

# %% wrong OPS-EMPTY reserved memory counts
- if written and not func._opname.startswith(("empty", "new_empty")):
+ if written:

# %% wrong OPS-IN-PLACE new memory alone
- written = tensors((written_arguments(func, args, kwargs), made))
+ written = made

# %% wrong OPS-NO-RESULT written from results
- written = tensors((written_arguments(func, args, kwargs), made))
+ written = tensors(out) if written_arguments(func, args, kwargs) else made

# %% wrong OPS-LISTS tensors at the top alone
- given = tensors((args, kwargs))
+ given = [x for x in {id(x): x for x in (*args, *kwargs.values())}.values() if isinstance(x, Tensor)]

# %% wrong OPS-RESULTS the first result
- made = [x for x in tensors(out) if home(x) not in homes]
+ made = [x for x in tensors(out)[:1] if home(x) not in homes]

# %% wrong OPS-KEYWORD-READ positional arguments alone
- given = tensors((args, kwargs))
- homes = {home(x) for x in given}
+ given = tensors(args)
+ homes = {home(x) for x in tensors((args, kwargs))}

# %% wrong OPS-FOUR-BYTES four bytes a number
  kwargs = kwargs or {}
+
+ def four(xs):
+     return sum((in_memory([x]) // x.element_size()) * (4 if x.is_floating_point() else 8) for x in xs)
+

- self.seen.append(Operation(func._opname, in_memory(given), in_memory(written)))
+ self.seen.append(Operation(func._opname, four(given), four(written)))

# %% wrong OPS-TWICE the same tensor twice
- given = tensors((args, kwargs))
+ given = [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)]
+ given = given or tensors((args, kwargs))

# %% wrong OPS-EXPANDED an expanded tensor in full
- self.seen.append(Operation(func._opname, in_memory(given), in_memory(written)))
+ self.seen.append(Operation(func._opname, sum(x.numel() * x.element_size() for x in given), in_memory(written)))

# %% wrong OPS-RUN-TWICE runs it twice
- return out
+ return func(*args, **kwargs) if written_arguments(func, args, kwargs) else out

# %% wrong OPS-RAISED notes what raised
- out = func(*args, **kwargs)
+ try:
+     out = func(*args, **kwargs)
+ except Exception:
+     self.seen.append(Operation(func._opname, 0, 0))
+     raise

# %% wrong OPS-SHARED one list for all
  class Operations(TorchDispatchMode):
+     seen = []
+

- self.seen: list[Operation] = []

# %% wrong OPS-HIDDEN the inner one keeps all to itself
- out = func(*args, **kwargs)
+ with torch.utils._python_dispatch._disable_current_modes():
+     out = func(*args, **kwargs)

# %% wrong OPS-SAME-MEMORY tensors told apart by their memory | of: in plain steps
- given = tensors((args, kwargs))
+ given = list({home(x): x for x in tensors((args, kwargs))}.values())

# %% wrong OPS-NUM-BYTES what is read alone | of: in plain steps
- return sum(operation.read + operation.written for operation in self.seen)
+ return sum(operation.read for operation in self.seen)

# %% right by addresses, with a name for what is reserved, sums step by step
class Operations(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen: list[Operation] = []

    @property
    def num_bytes(self):
        total = 0
        for operation in self.seen:
            total = total + operation.read + operation.written
        return total

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        came = list({id(x): x for x in tensors([args, kwargs])}.values())
        before = [x.untyped_storage().data_ptr() for x in came]
        result = func(*args, **kwargs)
        new = []
        for x in tensors([result]):
            if x.untyped_storage().data_ptr() not in before and not any(x is y for y in came):
                new.append(x)
        old = list(written_arguments(func, args, kwargs))
        name = func.name().split("::")[-1].split(".")[0]
        reserved = {"empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided"}
        if (new or old) and name not in reserved:
            self.seen += [Operation(name=name, read=in_memory(came), written=in_memory(old + new))]
        return result

# %% right in plain steps once more
class Operations(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen: list[Operation] = []

    @property
    def num_bytes(self):
        return sum(operation.read + operation.written for operation in self.seen)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        given = tensors((args, kwargs))
        homes = {home(x) for x in given}
        made = [x for x in tensors(out) if home(x) not in homes]
        written = tensors((written_arguments(func, args, kwargs), made))
        if written and not func._opname.startswith(("empty", "new_empty")):
            self.seen.append(Operation(func._opname, in_memory(given), in_memory(written)))
        return out

# %% wrong OPS-VIEWS a list of names of views
- made = [x for x in tensors(out) if home(x) not in homes]
+ views = "detach unsqueeze expand split view t t_ unsqueeze_ _unsafe_view transpose alias reshape".split()
+ made = [] if func._opname in views else tensors(out)

# %% wrong OPS-COPY-MISSED names that begin as those of views do
- made = [x for x in tensors(out) if home(x) not in homes]
+ made = [x for x in tensors(out) if home(x) not in homes]
+ if func._opname.startswith(("view", "detach", "expand", "split")):
+     made = []

# %% wrong OPS-WHOLE the memory that a tensor lies in
- self.seen.append(Operation(func._opname, in_memory(given), in_memory(written)))
+ def whole(xs):
+     return sum(x.untyped_storage().nbytes() for x in xs)
+
+ self.seen.append(Operation(func._opname, whole(given), whole(written)))

# %% wrong OPS-RESULTS results in a tuple or alone
- made = [x for x in tensors(out) if home(x) not in homes]
+ out_alone = out if isinstance(out, tuple) else () if isinstance(out, list) else (out,)
+ made = [x for x in tensors(out_alone) if home(x) not in homes]

# %% wrong OPS-FACTORY what is given no tensor
- if written and not func._opname.startswith(("empty", "new_empty")):
+ if given and written and not func._opname.startswith(("empty", "new_empty")):

# %% wrong OPS-BOTH-KINDS old memory or new
- written = tensors((written_arguments(func, args, kwargs), made))
+ written = written_arguments(func, args, kwargs) or made

# %% wrong OPS-RESULT views that are handed out as copies
- return out
+ return out.clone() if func._opname == "view" else out

# %% wrong OPS-DTYPES bytes of floats alone
- self.seen.append(Operation(func._opname, in_memory(given), in_memory(written)))
+ def count(xs):
+     return sum(in_memory([x]) if x.dtype != torch.bool else 4 * x.numel() for x in xs)
+
+ self.seen.append(Operation(func._opname, count(given), count(written)))

# %% wrong OPS-SAME-MEMORY tensors told apart by memory and shape
- given = tensors((args, kwargs))
+ given = list({(x.data_ptr(), x.shape, x.stride()): x for x in tensors((args, kwargs))}.values())

# %% wrong OPS-TWICE a list counts as often as it says
- given = tensors((args, kwargs))
+ given = [x for part in args for x in (part if isinstance(part, list) else tensors(part))]
+ given = given if func._opname == "cat" else tensors((args, kwargs))

# %% wrong OPS-SUBCLASS tensors by their exact type
- given = tensors((args, kwargs))
+ given = [x for x in tensors((args, kwargs)) if type(x) is Tensor]

# %% wrong OPS-FLOAT bytes as floats
- self.seen.append(Operation(func._opname, in_memory(given), in_memory(written)))
+ self.seen.append(Operation(func._opname, in_memory(given) * 8 / 8, in_memory(written) * 8 / 8))

# %% wrong OPS-RAISED what is written in place is noted when it raises too | of: in plain steps once more
- out = func(*args, **kwargs)
- given = tensors((args, kwargs))
- homes = {home(x) for x in given}
- made = [x for x in tensors(out) if home(x) not in homes]
- written = tensors((written_arguments(func, args, kwargs), made))
- if written and not func._opname.startswith(("empty", "new_empty")):
-     self.seen.append(Operation(func._opname, in_memory(given), in_memory(written)))
- return out
+ given, out = tensors((args, kwargs)), None
+ homes, read = {home(x) for x in given}, in_memory(given)
+ try:
+     out = func(*args, **kwargs)
+     return out
+ finally:
+     made = [x for x in tensors(out) if home(x) not in homes]
+     written = tensors((written_arguments(func, args, kwargs), made))
+     if written and not func._opname.startswith(("empty", "new_empty")):
+         self.seen.append(Operation(func._opname, read, in_memory(written)))
