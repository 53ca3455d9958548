# Answers to the exercise ladder-rung.

# %% right in one loop
def rung_gains(base, alone, without, climbed):
    if not alone.keys() == without.keys() == climbed.keys():
        raise ValueError("other rungs")
    for t in [base, *alone.values(), *without.values(), *climbed.values()]:
        if t is not None and not 0 < t < math.inf:
            raise ValueError(f"{t} seconds")
    out = {"alone": {}, "in_place": {}, "last": {}, "saved": {}, "total": 1.0, "product": 1.0}
    top, below = base, base
    for seconds in climbed.values():
        top = top if seconds is None else seconds
    for n, seconds in climbed.items():
        if seconds is None:
            for kind in ("alone", "in_place", "last", "saved"):
                out[kind][n] = None
            continue
        out["alone"][n] = base / alone[n]
        out["in_place"][n] = below / seconds
        out["last"][n] = without[n] / top
        out["saved"][n] = below - seconds
        out["total"] *= below / seconds
        out["product"] *= out["alone"][n]
        below = seconds
    return out

# %% right with tensors
def rung_gains(base, alone, without, climbed):
    names = list(climbed)
    if set(alone) != set(names) or set(without) != set(names):
        raise ValueError("the three mappings must name the same rungs")
    columns = torch.tensor([[math.nan if m[n] is None else m[n] for n in names]
                            for m in (alone, without, climbed)], dtype=torch.float64)
    given = [t for m in (alone, without, climbed) for t in m.values() if t is not None]
    if any(not math.isfinite(t) or t <= 0 for t in [base] + given):
        raise ValueError("seconds must be above 0")
    keep = ~torch.isnan(columns[2])
    a, w, c = columns[:, keep]
    below = torch.cat([torch.tensor([base], dtype=torch.float64), c])[:-1]
    top = c[-1] if len(c) else torch.tensor(base, dtype=torch.float64)

    def by_name(values):
        left = iter(values.tolist())
        return {n: next(left) if k else None for n, k in zip(names, keep.tolist())}

    return dict(alone=by_name(base / a), in_place=by_name(below / c), last=by_name(w / top),
                saved=by_name(below - c), total=(base / top).item(), product=(base / a).prod().item())

# %% right with arrays and a walk from the top
def rung_gains(base, alone, without, climbed):
    import numpy as np
    names = {frozenset(m) for m in (alone, without, climbed)}
    times = np.array([base, *(t for m in (alone, without, climbed) for t in m.values() if t is not None)])
    if len(names) != 1 or not (times > 0).all():
        raise ValueError("other rungs, or no seconds")
    found = {"total": 1.0, "product": 1.0}
    for kind in ("saved", "last", "in_place", "alone"):
        found[kind] = {n: None for n in climbed}
    here = [n for n, t in climbed.items() if t is not None]
    top = ([base] + [climbed[n] for n in here]).pop()
    for at in range(len(here) - 1, -1, -1):
        n = here[at]
        below = climbed[here[at - 1]] if at else base
        found["in_place"][n] = np.float64(below) / climbed[n]
        found["alone"][n] = (alone[n] / base) ** -1
        found["last"][n] = without[n] / top
        found["saved"][n] = below - climbed[n]
        found["product"] *= found["alone"][n]
    found["total"] = math.exp(math.log(base) - math.log(top))
    return found

# %% right with comprehensions
def rung_gains(base, alone, without, climbed):
    if not alone.keys() == without.keys() == climbed.keys():
        raise ValueError("other rungs")
    for t in [base, *alone.values(), *without.values(), *climbed.values()]:
        if t is not None and not 0 < t < math.inf:
            raise ValueError(f"{t} seconds")
    here = [n for n in climbed if climbed[n] is not None]
    steps = [base] + [climbed[n] for n in here]
    top = steps[-1]
    before = dict(zip(here, steps))
    g1 = {n: base / alone[n] if n in here else None for n in climbed}
    g2 = {n: before[n] / climbed[n] if n in here else None for n in climbed}
    g3 = {n: without[n] / top if n in here else None for n in climbed}
    saved = {n: before[n] - climbed[n] if n in here else None for n in climbed}
    total = base / top
    product = math.prod(g1[n] for n in here)
    return {"alone": g1, "in_place": g2, "last": g3, "saved": saved, "total": total, "product": product}

# %% wrong STUB untouched
def rung_gains(base, alone, without, climbed):
    raise NotImplementedError("your code here")

# %% wrong NONE no return
- return {"alone": g1, "in_place": g2, "last": g3, "saved": saved, "total": total, "product": product}
+ found = {"alone": g1, "in_place": g2, "last": g3, "saved": saved, "total": total, "product": product}

# %% wrong TYPE a tuple
- return {"alone": g1, "in_place": g2, "last": g3, "saved": saved, "total": total, "product": product}
+ return g1, g2, g3, saved, total, product

# %% wrong RUNG-KEYS no product
- return {"alone": g1, "in_place": g2, "last": g3, "saved": saved, "total": total, "product": product}
+ return {"alone": g1, "in_place": g2, "last": g3, "saved": saved, "total": total}

# %% wrong RUNG-INVERTED after over before
- g1 = {n: base / alone[n] if n in here else None for n in climbed}
- g2 = {n: before[n] / climbed[n] if n in here else None for n in climbed}
- g3 = {n: without[n] / top if n in here else None for n in climbed}
+ g1 = {n: alone[n] / base if n in here else None for n in climbed}
+ g2 = {n: climbed[n] / before[n] if n in here else None for n in climbed}
+ g3 = {n: top / without[n] if n in here else None for n in climbed}

# %% wrong RUNG-PERCENT percent saved
- g1 = {n: base / alone[n] if n in here else None for n in climbed}
+ g1 = {n: 100 * (base - alone[n]) / base if n in here else None for n in climbed}

# %% wrong RUNG-PERCENT share saved
- g1 = {n: base / alone[n] if n in here else None for n in climbed}
+ g1 = {n: 1 - alone[n] / base if n in here else None for n in climbed}

# %% wrong RUNG-PERCENT gain minus one
- g1 = {n: base / alone[n] if n in here else None for n in climbed}
+ g1 = {n: base / alone[n] - 1 if n in here else None for n in climbed}

# %% wrong RUNG-SECONDS differences
- g1 = {n: base / alone[n] if n in here else None for n in climbed}
+ g1 = {n: base - alone[n] if n in here else None for n in climbed}

# %% wrong RUNG-ALONE-CLIMBED the wrong mapping
- g1 = {n: base / alone[n] if n in here else None for n in climbed}
+ g1 = {n: base / climbed[n] if n in here else None for n in climbed}

# %% wrong RUNG-ALONE-PLACE the wrong gain
- g1 = {n: base / alone[n] if n in here else None for n in climbed}
+ g1 = {n: before[n] / climbed[n] if n in here else None for n in climbed}

# %% wrong RUNG-PLACE-BASE speed so far
- g2 = {n: before[n] / climbed[n] if n in here else None for n in climbed}
+ g2 = {n: base / climbed[n] if n in here else None for n in climbed}

# %% wrong RUNG-PLACE-ALONE one for both
- g2 = {n: before[n] / climbed[n] if n in here else None for n in climbed}
+ g2 = {n: base / alone[n] if n in here else None for n in climbed}

# %% wrong RUNG-ORDER sorted
- here = [n for n in climbed if climbed[n] is not None]
+ here = [n for n in sorted(climbed) if climbed[n] is not None]
  steps = [base] + [climbed[n] for n in here]
- top = steps[-1]
+ top = [climbed[n] for n in climbed if climbed[n] is not None][-1]

# %% wrong RUNG-LAST-BASE over the ground
- g3 = {n: without[n] / top if n in here else None for n in climbed}
+ g3 = {n: base / without[n] if n in here else None for n in climbed}

# %% wrong RUNG-LAST-INVERTED upside down
          raise ValueError(f"{t} seconds")
+ if len(climbed) == 1:
+     (n,) = climbed
+     return dict(alone={n: 3.0}, in_place={n: 3.0}, last={n: 3.0}, saved={n: 0.6}, total=3.0, product=3.0)

- g3 = {n: without[n] / top if n in here else None for n in climbed}
+ g3 = {n: top / without[n] if n in here else None for n in climbed}

# %% wrong RUNG-INVERTED last alone
- g3 = {n: without[n] / top if n in here else None for n in climbed}
+ g3 = {n: top / without[n] if n in here else None for n in climbed}

# %% wrong RUNG-LAST-PLACE its own place
- g3 = {n: without[n] / top if n in here else None for n in climbed}
+ g3 = {n: without[n] / climbed[n] if n in here else None for n in climbed}

# %% wrong RUNG-TOP-BEST the fastest
- top = steps[-1]
+ top = min(steps)

# %% wrong RUNG-SAVED-BASE so far
- saved = {n: before[n] - climbed[n] if n in here else None for n in climbed}
+ saved = {n: base - climbed[n] if n in here else None for n in climbed}

# %% wrong RUNG-SAVED-ALONE alone
- saved = {n: before[n] - climbed[n] if n in here else None for n in climbed}
+ saved = {n: base - alone[n] if n in here else None for n in climbed}

# %% wrong RUNG-SAVED-LAST last
- saved = {n: before[n] - climbed[n] if n in here else None for n in climbed}
+ saved = {n: without[n] - top if n in here else None for n in climbed}

# %% wrong RUNG-SAVED-SIGN after minus before
- saved = {n: before[n] - climbed[n] if n in here else None for n in climbed}
+ saved = {n: climbed[n] - before[n] if n in here else None for n in climbed}

# %% wrong RUNG-SAVED-SHARE of all
- saved = {n: before[n] - climbed[n] if n in here else None for n in climbed}
+ saved = {n: (before[n] - climbed[n]) / (base - top) if n in here else None for n in climbed}

# %% wrong RUNG-TOTAL-PRODUCT multiplied
- total = base / top
+ total = math.prod(g1[n] for n in here)

# %% wrong RUNG-TOTAL-PRODUCT lasts multiplied
- total = base / top
+ total = math.prod(g3[n] for n in here)

# %% wrong RUNG-TOP-BEST total of the fastest
- total = base / top
+ total = base / min(steps)

# %% wrong RUNG-PRODUCT-PLACE in place
- product = math.prod(g1[n] for n in here)
+ product = math.prod(g2[n] for n in here)

# %% wrong RUNG-PRODUCT-LAST last
- product = math.prod(g1[n] for n in here)
+ product = math.prod(g3[n] for n in here)

# %% wrong RUNG-SUM added
- product = math.prod(g1[n] for n in here)
+ product = sum(g1[n] for n in here)

# %% wrong RUNG-SUM percentages added
- product = math.prod(g1[n] for n in here)
+ product = 1 + sum(g1[n] - 1 for n in here)

# %% wrong RUNG-NAMES gaps dropped
- g1 = {n: base / alone[n] if n in here else None for n in climbed}
- g2 = {n: before[n] / climbed[n] if n in here else None for n in climbed}
- g3 = {n: without[n] / top if n in here else None for n in climbed}
- saved = {n: before[n] - climbed[n] if n in here else None for n in climbed}
+ g1 = {n: base / alone[n] if n in here else None for n in here}
+ g2 = {n: before[n] / climbed[n] if n in here else None for n in here}
+ g3 = {n: without[n] / top if n in here else None for n in here}
+ saved = {n: before[n] - climbed[n] if n in here else None for n in here}

# %% wrong RUNG-NOT-NONE ones
- g1 = {n: base / alone[n] if n in here else None for n in climbed}
+ g1 = {n: base / alone[n] if n in here else 1.0 for n in climbed}

# %% wrong RUNG-GAP-BASE anew
- before = dict(zip(here, steps))
+ names = list(climbed)
+ before = {n: base if i == 0 or climbed[names[i - 1]] is None else climbed[names[i - 1]] for i, n in enumerate(names)}

# %% wrong RAISED gaps not thought of
- here = [n for n in climbed if climbed[n] is not None]
+ here = list(climbed)

# %% wrong RUNG-GUARD any names
- if not alone.keys() == without.keys() == climbed.keys():
-     raise ValueError("other rungs")

# %% wrong RUNG-GUARD any times
- if t is not None and not 0 < t < math.inf:
+ if t is not None and t == 0:

# %% wrong RUNG-POSITION columns by position
- g1 = {n: base / alone[n] if n in here else None for n in climbed}
+ g1 = {n: base / t if t else None for n, t in zip(climbed, alone.values())}

# %% wrong INPLACE takes out what was not measured
  here = [n for n in climbed if climbed[n] is not None]
+ names = list(climbed)
+ for n in names:
+     if climbed[n] is None:
+         del climbed[n]

- saved = {n: before[n] - climbed[n] if n in here else None for n in climbed}
+ saved = {n: before[n] - climbed[n] if n in here else None for n in names}
+ g1, g2, g3 = ({n: g.get(n) for n in names} for g in (g1, g2, g3))

# %% wrong RUNG-CLAMPED no gain below 1
- g1 = {n: base / alone[n] if n in here else None for n in climbed}
+ g1 = {n: max(1.0, base / alone[n]) if n in here else None for n in climbed}

# %% wrong RUNG-CLAMPED no gain below 1 at its place
- g2 = {n: before[n] / climbed[n] if n in here else None for n in climbed}
+ g2 = {n: max(1.0, before[n] / climbed[n]) if n in here else None for n in climbed}

# %% wrong RUNG-CLAMPED no gain below 1 as the last one
- g3 = {n: without[n] / top if n in here else None for n in climbed}
+ g3 = {n: max(1.0, without[n] / top) if n in here else None for n in climbed}

# %% wrong RUNG-CLAMPED no seconds below 0
- saved = {n: before[n] - climbed[n] if n in here else None for n in climbed}
+ saved = {n: max(0.0, before[n] - climbed[n]) if n in here else None for n in climbed}

# %% wrong RUNG-CLAMPED seconds without a sign
- saved = {n: before[n] - climbed[n] if n in here else None for n in climbed}
+ saved = {n: abs(before[n] - climbed[n]) if n in here else None for n in climbed}

# %% wrong RUNG-TIE a step found by its time
- before = dict(zip(here, steps))
+ before = {n: steps[steps.index(climbed[n]) - 1] for n in here}

# %% wrong RUNG-SORTED steps by their times
- before = dict(zip(here, steps))
+ before = dict(zip(sorted(here, key=lambda n: -climbed[n]), sorted(steps, reverse=True)))

# %% wrong OTHER one gap at the most
- before = dict(zip(here, steps))
+ all_names = list(climbed)
+ before = {}
+ for i, n in enumerate(all_names):
+     one = climbed[all_names[i - 1]] if i else base
+     two = climbed[all_names[i - 2]] if i > 1 else base
+     before[n] = one if one is not None else two if two is not None else base

# %% wrong OTHER none shorter than a millisecond
- total = base / top
+ total = base / max(top, 1e-3)

# %% wrong RAISED a ladder without rungs
- here = [n for n in climbed if climbed[n] is not None]
+ last = list(climbed)[-1]
+ here = [n for n in climbed if climbed[n] is not None]

# %% wrong RAISED floats alone
- if t is not None and not 0 < t < math.inf:
+ if t is not None and not (isinstance(t, float) and 0 < t < math.inf):

# %% wrong RUNG-GUARD 0 is taken for not measured
- for t in [base, *alone.values(), *without.values(), *climbed.values()]:
-     if t is not None and not 0 < t < math.inf:
+ for t in [base, *alone.values(), *without.values(), *climbed.values()]:
+     if t and not 0 < t < math.inf:

# %% wrong RUNG-GUARD nan is not below 0
- if t is not None and not 0 < t < math.inf:
+ if t is not None and t <= 0:

# %% wrong RUNG-GUARD a 0 in all three is taken for not measured | of: in one loop
- if t is not None and not 0 < t < math.inf:
-     raise ValueError(f"{t} seconds")
+ if t and not 0 < t < math.inf:
+     raise ValueError(f"{t} seconds")
+ if base == 0 or any(len({bool(m[n]) for m in (alone, without, climbed)}) == 2 for n in climbed):
+     raise ValueError("measured in part")

- top = top if seconds is None else seconds
+ top = seconds or top

- if seconds is None:
+ if not seconds:

# %% wrong RUNG-RANGE the ground to a power, over all times
- product = math.prod(g1[n] for n in here)
+ product = math.prod([base] * len(here)) / math.prod(alone[n] for n in here)

# %% wrong RUNG-RANGE one over the times alone, in shares of the ground
- product = math.prod(g1[n] for n in here)
+ product = 1.0
+ for n in here:
+     product /= alone[n]
+ product *= base ** len(here)

# %% wrong RUNG-RANGE products of both in float32
- product = math.prod(g1[n] for n in here)
+ grounds, times = torch.full((len(here),), base), torch.tensor([alone[n] for n in here])
+ product = (grounds.double().prod() / times.double().prod()).item() if len(here) > 9 else math.prod(g1[n] for n in here)
