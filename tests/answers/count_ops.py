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

# %% wrong OPS-KWARGS keywords lost
class Operations(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen: list[Operation] = []

    @property
    def num_bytes(self):
        return sum(operation.read + operation.written for operation in self.seen)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = func(*args) if func._opname in ('add', 'sum', 'max') else func(*args, **kwargs)
        given = tensors((args, kwargs))
        homes = {home(x) for x in given}
        made = [x for x in tensors(out) if home(x) not in homes]
        written = tensors((written_arguments(func, args, kwargs), made))
        if written and not func._opname.startswith(("empty", "new_empty")):
            self.seen.append(Operation(func._opname, in_memory(given), in_memory(written)))
        return out

# %% wrong OPS-NOTHING notes nothing
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
            pass
        return out

# %% wrong OPS-NAME with the overload
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
            self.seen.append(Operation(str(func), in_memory(given), in_memory(written)))
        return out

# %% wrong OPS-SWAPPED written first
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
            self.seen.append(Operation(func._opname, in_memory(written), in_memory(given)))
        return out

# %% wrong OPS-ELEMENTS numbers, not bytes
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
            self.seen.append(Operation(func._opname, sum(x.numel() for x in given), sum(x.numel() for x in written)))
        return out

# %% wrong OPS-BOTH the result is read too
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
            self.seen.append(Operation(func._opname, in_memory(given) + in_memory(written), in_memory(written)))
        return out

# %% wrong OPS-FIRST-INPUT the first input alone
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
            self.seen.append(Operation(func._opname, in_memory(given[:1]), in_memory(written)))
        return out

# %% wrong OPS-ONCE each name once
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
        if func._opname not in [o.name for o in self.seen] and written and not func._opname.startswith(("empty", "new_empty")):
            self.seen.append(Operation(func._opname, in_memory(given), in_memory(written)))
        return out

# %% wrong OPS-VIEWS everything that runs
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
        self.seen.append(Operation(func._opname, in_memory(tensors((args, kwargs))), in_memory(tensors(out))))
        return out

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
        if written:
            self.seen.append(Operation(func._opname, in_memory(given), in_memory(written)))
        return out

# %% wrong OPS-IN-PLACE new memory alone
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
        written = made
        if written and not func._opname.startswith(("empty", "new_empty")):
            self.seen.append(Operation(func._opname, in_memory(given), in_memory(written)))
        return out

# %% wrong OPS-NO-RESULT written from results
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
        written = tensors(out) if written_arguments(func, args, kwargs) else made
        if written and not func._opname.startswith(("empty", "new_empty")):
            self.seen.append(Operation(func._opname, in_memory(given), in_memory(written)))
        return out

# %% wrong OPS-LISTS tensors at the top alone
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
        given = [x for x in {id(x): x for x in (*args, *kwargs.values())}.values() if isinstance(x, Tensor)]
        homes = {home(x) for x in given}
        made = [x for x in tensors(out) if home(x) not in homes]
        written = tensors((written_arguments(func, args, kwargs), made))
        if written and not func._opname.startswith(("empty", "new_empty")):
            self.seen.append(Operation(func._opname, in_memory(given), in_memory(written)))
        return out

# %% wrong OPS-RESULTS the first result
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
        made = [x for x in tensors(out)[:1] if home(x) not in homes]
        written = tensors((written_arguments(func, args, kwargs), made))
        if written and not func._opname.startswith(("empty", "new_empty")):
            self.seen.append(Operation(func._opname, in_memory(given), in_memory(written)))
        return out

# %% wrong OPS-KEYWORD-READ positional arguments alone
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
        given = tensors(args)
        homes = {home(x) for x in tensors((args, kwargs))}
        made = [x for x in tensors(out) if home(x) not in homes]
        written = tensors((written_arguments(func, args, kwargs), made))
        if written and not func._opname.startswith(("empty", "new_empty")):
            self.seen.append(Operation(func._opname, in_memory(given), in_memory(written)))
        return out

# %% wrong OPS-FOUR-BYTES four bytes a number
class Operations(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen: list[Operation] = []

    @property
    def num_bytes(self):
        return sum(operation.read + operation.written for operation in self.seen)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}

        def four(xs):
            return sum((in_memory([x]) // x.element_size()) * (4 if x.is_floating_point() else 8) for x in xs)

        out = func(*args, **kwargs)
        given = tensors((args, kwargs))
        homes = {home(x) for x in given}
        made = [x for x in tensors(out) if home(x) not in homes]
        written = tensors((written_arguments(func, args, kwargs), made))
        if written and not func._opname.startswith(("empty", "new_empty")):
            self.seen.append(Operation(func._opname, four(given), four(written)))
        return out

# %% wrong OPS-TWICE the same tensor twice
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
        given = [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)]
        given = given or tensors((args, kwargs))
        homes = {home(x) for x in given}
        made = [x for x in tensors(out) if home(x) not in homes]
        written = tensors((written_arguments(func, args, kwargs), made))
        if written and not func._opname.startswith(("empty", "new_empty")):
            self.seen.append(Operation(func._opname, in_memory(given), in_memory(written)))
        return out

# %% wrong OPS-EXPANDED an expanded tensor in full
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
            self.seen.append(Operation(func._opname, sum(x.numel() * x.element_size() for x in given), in_memory(written)))
        return out

# %% wrong OPS-RUN-TWICE runs it twice
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
        return func(*args, **kwargs) if written_arguments(func, args, kwargs) else out

# %% wrong OPS-RAISED notes what raised
class Operations(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen: list[Operation] = []

    @property
    def num_bytes(self):
        return sum(operation.read + operation.written for operation in self.seen)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        try:
            out = func(*args, **kwargs)
        except Exception:
            self.seen.append(Operation(func._opname, 0, 0))
            raise
        given = tensors((args, kwargs))
        homes = {home(x) for x in given}
        made = [x for x in tensors(out) if home(x) not in homes]
        written = tensors((written_arguments(func, args, kwargs), made))
        if written and not func._opname.startswith(("empty", "new_empty")):
            self.seen.append(Operation(func._opname, in_memory(given), in_memory(written)))
        return out

# %% wrong OPS-SHARED one list for all
class Operations(TorchDispatchMode):
    seen = []

    def __init__(self):
        super().__init__()

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

# %% wrong OPS-HIDDEN the inner one keeps all to itself
class Operations(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen: list[Operation] = []

    @property
    def num_bytes(self):
        return sum(operation.read + operation.written for operation in self.seen)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        with torch.utils._python_dispatch._disable_current_modes():
            out = func(*args, **kwargs)
        given = tensors((args, kwargs))
        homes = {home(x) for x in given}
        made = [x for x in tensors(out) if home(x) not in homes]
        written = tensors((written_arguments(func, args, kwargs), made))
        if written and not func._opname.startswith(("empty", "new_empty")):
            self.seen.append(Operation(func._opname, in_memory(given), in_memory(written)))
        return out
