# Answers to the exercise checkpoint-policy.

# %% right all subsets, as bits
def recompute_plan(kept, inputs, flops, budget):
    n, best = len(kept), None
    for bits in range(2**n):
        plan = [i for i in range(n) if bits >> i & 1]
        held = sum(kept) - sum(kept[i] - inputs[i] for i in plan)
        if held <= budget:
            cost = sum(flops[i] for i in plan)
            best = min(best, (cost, plan)) if best else (cost, plan)
    if best is None:
        raise ValueError(f"{budget} bytes are fewer than the inputs alone")
    return best[1]

# %% right part by part, keep or recompute
def recompute_plan(kept, inputs, flops, budget):
    @functools.cache
    def best(part, left):
        """(FLOPs, positions) for the parts from `part` on, or None."""
        if left < 0:
            return None
        if part == len(kept):
            return 0, ()
        keep, again = best(part + 1, left - kept[part]), best(part + 1, left - inputs[part])
        if again is not None:
            again = again[0] + flops[part], (part, *again[1])
        return min(filter(None, (keep, again)), default=None)

    found = best(0, budget)
    if found is None:
        raise ValueError("the budget is too small")
    return list(found[1])

# %% right backwards, the best per sum of bytes
def recompute_plan(kept, inputs, flops, budget):
    states = {0: (0, ())}  # bytes held -> FLOPs, parts
    for i in reversed(range(len(kept))):
        following = {}
        for held, (cost, parts) in states.items():
            for more, new in ((kept[i], (cost, parts)), (inputs[i], (cost + flops[i], (i,) + parts))):
                old = following.get(held + more)
                if old is None or new[0] < old[0]:
                    following[held + more] = new
        states = following
    fitting = [(c, len(p), p) for held, (c, p) in states.items() if held <= budget]
    if not fitting:
        raise ValueError("no plan fits")
    return [*min(fitting)[2]]

# %% right in plain steps
def recompute_plan(kept, inputs, flops, budget):
    parts = range(len(kept))
    best = None
    for r in range(len(kept) + 1):
        for some in itertools.combinations(parts, r):
            held = sum(inputs[i] if i in some else kept[i] for i in parts)
            cost = sum(flops[i] for i in some)
            if held <= budget and (best is None or cost < best[0]):
                best = cost, list(some)
    if best is None:
        raise ValueError("does not fit")
    return best[1]

# %% wrong STUB untouched
def recompute_plan(kept, inputs, flops, budget):
    raise NotImplementedError("your code here")

# %% wrong NONE no return
- return best[1]
+ plan = best[1]

# %% wrong PLAN-TYPE a set of flags
- return best[1]
+ return [int(i in best[1]) for i in parts]

# %% wrong PLAN-TYPE the cost too
- return best[1]
+ return best

# %% wrong PLAN-ALL always everything
def recompute_plan(kept, inputs, flops, budget):
    if sum(kept) <= budget:
        return []
    if sum(inputs) > budget:
        raise ValueError("does not fit")
    return list(range(len(kept)))

# %% wrong PLAN-NEEDLESS recomputes at least one
- for r in range(len(kept) + 1):
+ for r in range(1, len(kept) + 1):

# %% wrong PLAN-EQUAL below the budget
- if held <= budget and (best is None or cost < best[0]):
+ if held < budget and (best is None or cost < best[0]):

# %% wrong PLAN-LARGEST frees most first
def recompute_plan(kept, inputs, flops, budget):
    parts = range(len(kept))
    order = sorted(parts, key=lambda i: inputs[i] - kept[i])
    plan, held = [], sum(kept)
    for i in order:
        if held <= budget:
            break
        plan.append(i)
        held -= kept[i] - inputs[i]
    if held > budget:
        raise ValueError("does not fit")
    return sorted(plan)

# %% wrong PLAN-RATIO most bytes per FLOP first
def recompute_plan(kept, inputs, flops, budget):
    parts = range(len(kept))
    order = sorted(parts, key=lambda i: (inputs[i] - kept[i]) / flops[i])
    plan, held = [], sum(kept)
    for i in order:
        if held <= budget:
            break
        plan.append(i)
        held -= kept[i] - inputs[i]
    if held > budget:
        raise ValueError("does not fit")
    return sorted(plan)

# %% wrong PLAN-LARGEST the fewest parts
- cost = sum(flops[i] for i in some)
+ cost = len(some)

# %% wrong PLAN-TIGHT fills the budget
- cost = sum(flops[i] for i in some)
+ cost = budget - held

# %% wrong PLAN-INPUTS a recomputed part keeps nothing
- held = sum(inputs[i] if i in some else kept[i] for i in parts)
+ held = sum(kept[i] for i in parts if i not in some)

# %% wrong PLAN-INVERTED what to keep
- return best[1]
+ return [i for i in parts if i not in best[1]] if best[1] else []

# %% wrong PLAN-OVER counts what is freed as what is held
- held = sum(inputs[i] if i in some else kept[i] for i in parts)
+ held = sum(kept[i] - inputs[i] for i in some)

# %% wrong PLAN-NEVER everything when nothing fits
- raise ValueError("does not fit")
+ return list(parts)

# %% wrong PLAN-NEVER an assertion
- if best is None:
-     raise ValueError("does not fit")
+ assert best is not None

# %% wrong RAISED one more than there are
- parts = range(len(kept))
+ parts = range(len(kept) + 1)

# %% wrong PLAN-OVER equal parts are told by their numbers
  parts = range(len(kept))
+ triples = list(zip(kept, inputs, flops))

- return best[1]
+ return sorted({triples.index(triples[i]) for i in best[1]})

# %% wrong INPLACE parts in the order of their cost
  parts = range(len(kept))
+ flops.sort()

# %% wrong PLAN-EQUAL below the budget, where something is recomputed
- if held <= budget and (best is None or cost < best[0]):
+ if (held < budget or not some and held == budget) and (best is None or cost < best[0]):

# %% wrong PLAN-OVER sums in float32
- held = sum(inputs[i] if i in some else kept[i] for i in parts)
+ held = torch.tensor([inputs[i] if i in some else kept[i] for i in parts], dtype=torch.float32).sum()

# %% wrong PLAN-NEEDLESS what costs nothing is recomputed always
- return best[1]
+ return sorted({*best[1], *(i for i in parts if not flops[i])})

# %% wrong PLAN-LARGEST a plan of 0 FLOPs is taken for none
- if held <= budget and (best is None or cost < best[0]):
+ if held <= budget and (not best or not best[0] and best[1] or cost < best[0]):

# %% wrong RAISED bytes per FLOP
  parts = range(len(kept))
+ order = sorted(parts, key=lambda i: (kept[i] - inputs[i]) / flops[i]) if sum(kept) > budget else []

# %% wrong PLAN-LARGEST one plan per cost
def recompute_plan(kept, inputs, flops, budget):
    if sum(inputs) > budget:
        raise ValueError("does not fit")
    by_cost = {0: (sum(kept), [])}
    for i in range(len(kept)):
        for cost, (held, plan) in list(by_cost.items()):
            by_cost.setdefault(cost + flops[i], (held - kept[i] + inputs[i], [*plan, i]))
    fits = [(cost, plan) for cost, (held, plan) in by_cost.items() if held <= budget]
    return min(fits)[1] if fits else list(range(len(kept)))

# %% wrong PLAN-FLOAT costs as floats
- cost = sum(flops[i] for i in some)
+ cost = float(sum(flops[i] for i in some))

# %% wrong PLAN-REFUSED no parts
  parts = range(len(kept))
+ largest = max(kept)

# %% wrong PLAN-OVER a budget of 0 is none
- if held <= budget and (best is None or cost < best[0]):
+ if (not budget or held <= budget) and (best is None or cost < best[0]):

# %% wrong PLAN-REFUSED five parts at the most
- for r in range(len(kept) + 1):
+ for r in [*range(min(len(kept), 6)), *([len(kept)] if len(kept) < 6 else [])]:

# %% wrong PLAN-REFUSED recomputing everything is taken for the least
  parts = range(len(kept))
+ if sum(inputs) > budget and sum(kept) > budget:
+     raise ValueError("does not fit")

# %% wrong PLAN-NEEDLESS of plans that cost the same the one that keeps fewest bytes
- if held <= budget and (best is None or cost < best[0]):
-     best = cost, list(some)
+ if held <= budget and (best is None or (cost, held) < best[:2]):
+     best = cost, held, list(some)

- return best[1]
+ return best[2]

# %% wrong PLAN-NEEDLESS recomputes where that costs no more, from the last part on | of: part by part, keep or recompute
- return min(filter(None, (keep, again)), default=None)
+ return again if again and (not keep or again[0] <= keep[0]) else keep

# %% wrong PLAN-FLOAT costs in a tensor of float64 | of: backwards, the best per sum of bytes
- states = {0: (0, ())}  # bytes held -> FLOPs, parts
+ flops = torch.tensor(flops, dtype=torch.float64).tolist()
+ states = {0: (0, ())}  # bytes held -> FLOPs, parts

# %% wrong PLAN-FLOAT costs in billions
- cost = sum(flops[i] for i in some)
+ cost = sum(flops[i] / 1e9 for i in some)

# %% wrong PLAN-FLOAT of equal floats the last
- if held <= budget and (best is None or cost < best[0]):
+ cost = sum(map(float, (flops[i] for i in some)))
+ if held <= budget and (best is None or cost < best[0] or best[0] and cost == best[0]):

# %% wrong PLAN-FLOAT bytes as floats
- held = sum(inputs[i] if i in some else kept[i] for i in parts)
+ held = sum(float(inputs[i] if i in some else kept[i]) for i in parts)

# %% wrong PLAN-RATIO eleven parts and more by a rule of thumb
def recompute_plan(kept, inputs, flops, budget):
    parts = range(len(kept))
    if len(kept) >= 11:
        plan, held = [], sum(kept)
        for i in sorted(parts, key=lambda i: (inputs[i] - kept[i]) / (flops[i] + 1e-9)):
            if held > budget:
                plan.append(i)
                held += inputs[i] - kept[i]
        if held <= budget:
            return sorted(plan)
    best = None
    for r in range(len(kept) + 1):
        for some in itertools.combinations(parts, r):
            held = sum(inputs[i] if i in some else kept[i] for i in parts)
            cost = sum(flops[i] for i in some)
            if held <= budget and (best is None or cost < best[0]):
                best = cost, list(some)
    if best is None:
        raise ValueError("does not fit")
    return best[1]

# %% wrong PLAN-LARGEST eight parts and more, the largest first
def recompute_plan(kept, inputs, flops, budget):
    parts = range(len(kept))
    if len(kept) >= 8:
        plan, held = [], sum(kept)
        for i in sorted(parts, key=lambda i: inputs[i] - kept[i]):
            if held > budget:
                plan.append(i)
                held += inputs[i] - kept[i]
        if held <= budget:
            return sorted(plan)
    best = None
    for r in range(len(kept) + 1):
        for some in itertools.combinations(parts, r):
            held = sum(inputs[i] if i in some else kept[i] for i in parts)
            cost = sum(flops[i] for i in some)
            if held <= budget and (best is None or cost < best[0]):
                best = cost, list(some)
    if best is None:
        raise ValueError("does not fit")
    return best[1]

# %% wrong PLAN-REFUSED refuses a budget below what some part keeps
  best = None
+ if any(min(k, max(kept)) > budget for k in inputs):
+     raise ValueError("too little")
