# Answers to the exercise ladder-rung.

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

# %% wrong STUB untouched
def rung_gains(base, alone, without, climbed):
    raise NotImplementedError("your code here")

# %% wrong NONE no return
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
    found = {"alone": g1, "in_place": g2, "last": g3, "saved": saved, "total": total, "product": product}

# %% wrong TYPE a tuple
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
    return g1, g2, g3, saved, total, product

# %% wrong RUNG-KEYS no product
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
    return {"alone": g1, "in_place": g2, "last": g3, "saved": saved, "total": total}

# %% wrong RUNG-INVERTED after over before
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
    g1 = {n: alone[n] / base if n in here else None for n in climbed}
    g2 = {n: climbed[n] / before[n] if n in here else None for n in climbed}
    g3 = {n: top / without[n] if n in here else None for n in climbed}
    saved = {n: before[n] - climbed[n] if n in here else None for n in climbed}
    total = base / top
    product = math.prod(g1[n] for n in here)
    return {"alone": g1, "in_place": g2, "last": g3, "saved": saved, "total": total, "product": product}

# %% wrong RUNG-PERCENT percent saved
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
    g1 = {n: 100 * (base - alone[n]) / base if n in here else None for n in climbed}
    g2 = {n: before[n] / climbed[n] if n in here else None for n in climbed}
    g3 = {n: without[n] / top if n in here else None for n in climbed}
    saved = {n: before[n] - climbed[n] if n in here else None for n in climbed}
    total = base / top
    product = math.prod(g1[n] for n in here)
    return {"alone": g1, "in_place": g2, "last": g3, "saved": saved, "total": total, "product": product}

# %% wrong RUNG-PERCENT share saved
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
    g1 = {n: 1 - alone[n] / base if n in here else None for n in climbed}
    g2 = {n: before[n] / climbed[n] if n in here else None for n in climbed}
    g3 = {n: without[n] / top if n in here else None for n in climbed}
    saved = {n: before[n] - climbed[n] if n in here else None for n in climbed}
    total = base / top
    product = math.prod(g1[n] for n in here)
    return {"alone": g1, "in_place": g2, "last": g3, "saved": saved, "total": total, "product": product}

# %% wrong RUNG-PERCENT gain minus one
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
    g1 = {n: base / alone[n] - 1 if n in here else None for n in climbed}
    g2 = {n: before[n] / climbed[n] if n in here else None for n in climbed}
    g3 = {n: without[n] / top if n in here else None for n in climbed}
    saved = {n: before[n] - climbed[n] if n in here else None for n in climbed}
    total = base / top
    product = math.prod(g1[n] for n in here)
    return {"alone": g1, "in_place": g2, "last": g3, "saved": saved, "total": total, "product": product}

# %% wrong RUNG-SECONDS differences
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
    g1 = {n: base - alone[n] if n in here else None for n in climbed}
    g2 = {n: before[n] / climbed[n] if n in here else None for n in climbed}
    g3 = {n: without[n] / top if n in here else None for n in climbed}
    saved = {n: before[n] - climbed[n] if n in here else None for n in climbed}
    total = base / top
    product = math.prod(g1[n] for n in here)
    return {"alone": g1, "in_place": g2, "last": g3, "saved": saved, "total": total, "product": product}

# %% wrong RUNG-ALONE-CLIMBED the wrong mapping
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
    g1 = {n: base / climbed[n] if n in here else None for n in climbed}
    g2 = {n: before[n] / climbed[n] if n in here else None for n in climbed}
    g3 = {n: without[n] / top if n in here else None for n in climbed}
    saved = {n: before[n] - climbed[n] if n in here else None for n in climbed}
    total = base / top
    product = math.prod(g1[n] for n in here)
    return {"alone": g1, "in_place": g2, "last": g3, "saved": saved, "total": total, "product": product}

# %% wrong RUNG-ALONE-PLACE the wrong gain
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
    g1 = {n: before[n] / climbed[n] if n in here else None for n in climbed}
    g2 = {n: before[n] / climbed[n] if n in here else None for n in climbed}
    g3 = {n: without[n] / top if n in here else None for n in climbed}
    saved = {n: before[n] - climbed[n] if n in here else None for n in climbed}
    total = base / top
    product = math.prod(g1[n] for n in here)
    return {"alone": g1, "in_place": g2, "last": g3, "saved": saved, "total": total, "product": product}

# %% wrong RUNG-PLACE-BASE speed so far
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
    g2 = {n: base / climbed[n] if n in here else None for n in climbed}
    g3 = {n: without[n] / top if n in here else None for n in climbed}
    saved = {n: before[n] - climbed[n] if n in here else None for n in climbed}
    total = base / top
    product = math.prod(g1[n] for n in here)
    return {"alone": g1, "in_place": g2, "last": g3, "saved": saved, "total": total, "product": product}

# %% wrong RUNG-PLACE-ALONE one for both
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
    g2 = {n: base / alone[n] if n in here else None for n in climbed}
    g3 = {n: without[n] / top if n in here else None for n in climbed}
    saved = {n: before[n] - climbed[n] if n in here else None for n in climbed}
    total = base / top
    product = math.prod(g1[n] for n in here)
    return {"alone": g1, "in_place": g2, "last": g3, "saved": saved, "total": total, "product": product}

# %% wrong RUNG-ORDER sorted
def rung_gains(base, alone, without, climbed):
    if not alone.keys() == without.keys() == climbed.keys():
        raise ValueError("other rungs")
    for t in [base, *alone.values(), *without.values(), *climbed.values()]:
        if t is not None and not 0 < t < math.inf:
            raise ValueError(f"{t} seconds")
    here = [n for n in sorted(climbed) if climbed[n] is not None]
    steps = [base] + [climbed[n] for n in here]
    top = [climbed[n] for n in climbed if climbed[n] is not None][-1]
    before = dict(zip(here, steps))
    g1 = {n: base / alone[n] if n in here else None for n in climbed}
    g2 = {n: before[n] / climbed[n] if n in here else None for n in climbed}
    g3 = {n: without[n] / top if n in here else None for n in climbed}
    saved = {n: before[n] - climbed[n] if n in here else None for n in climbed}
    total = base / top
    product = math.prod(g1[n] for n in here)
    return {"alone": g1, "in_place": g2, "last": g3, "saved": saved, "total": total, "product": product}

# %% wrong RUNG-LAST-BASE over the ground
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
    g3 = {n: base / without[n] if n in here else None for n in climbed}
    saved = {n: before[n] - climbed[n] if n in here else None for n in climbed}
    total = base / top
    product = math.prod(g1[n] for n in here)
    return {"alone": g1, "in_place": g2, "last": g3, "saved": saved, "total": total, "product": product}

# %% wrong RUNG-LAST-INVERTED upside down
def rung_gains(base, alone, without, climbed):
    if not alone.keys() == without.keys() == climbed.keys():
        raise ValueError("other rungs")
    for t in [base, *alone.values(), *without.values(), *climbed.values()]:
        if t is not None and not 0 < t < math.inf:
            raise ValueError(f"{t} seconds")
    if len(climbed) == 1:
        (n,) = climbed
        return dict(alone={n: 3.0}, in_place={n: 3.0}, last={n: 3.0}, saved={n: 0.6}, total=3.0, product=3.0)
    here = [n for n in climbed if climbed[n] is not None]
    steps = [base] + [climbed[n] for n in here]
    top = steps[-1]
    before = dict(zip(here, steps))
    g1 = {n: base / alone[n] if n in here else None for n in climbed}
    g2 = {n: before[n] / climbed[n] if n in here else None for n in climbed}
    g3 = {n: top / without[n] if n in here else None for n in climbed}
    saved = {n: before[n] - climbed[n] if n in here else None for n in climbed}
    total = base / top
    product = math.prod(g1[n] for n in here)
    return {"alone": g1, "in_place": g2, "last": g3, "saved": saved, "total": total, "product": product}

# %% wrong RUNG-INVERTED last alone
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
    g3 = {n: top / without[n] if n in here else None for n in climbed}
    saved = {n: before[n] - climbed[n] if n in here else None for n in climbed}
    total = base / top
    product = math.prod(g1[n] for n in here)
    return {"alone": g1, "in_place": g2, "last": g3, "saved": saved, "total": total, "product": product}

# %% wrong RUNG-LAST-PLACE its own place
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
    g3 = {n: without[n] / climbed[n] if n in here else None for n in climbed}
    saved = {n: before[n] - climbed[n] if n in here else None for n in climbed}
    total = base / top
    product = math.prod(g1[n] for n in here)
    return {"alone": g1, "in_place": g2, "last": g3, "saved": saved, "total": total, "product": product}

# %% wrong RUNG-TOP-BEST the fastest
def rung_gains(base, alone, without, climbed):
    if not alone.keys() == without.keys() == climbed.keys():
        raise ValueError("other rungs")
    for t in [base, *alone.values(), *without.values(), *climbed.values()]:
        if t is not None and not 0 < t < math.inf:
            raise ValueError(f"{t} seconds")
    here = [n for n in climbed if climbed[n] is not None]
    steps = [base] + [climbed[n] for n in here]
    top = min(steps)
    before = dict(zip(here, steps))
    g1 = {n: base / alone[n] if n in here else None for n in climbed}
    g2 = {n: before[n] / climbed[n] if n in here else None for n in climbed}
    g3 = {n: without[n] / top if n in here else None for n in climbed}
    saved = {n: before[n] - climbed[n] if n in here else None for n in climbed}
    total = base / top
    product = math.prod(g1[n] for n in here)
    return {"alone": g1, "in_place": g2, "last": g3, "saved": saved, "total": total, "product": product}

# %% wrong RUNG-SAVED-BASE so far
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
    saved = {n: base - climbed[n] if n in here else None for n in climbed}
    total = base / top
    product = math.prod(g1[n] for n in here)
    return {"alone": g1, "in_place": g2, "last": g3, "saved": saved, "total": total, "product": product}

# %% wrong RUNG-SAVED-ALONE alone
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
    saved = {n: base - alone[n] if n in here else None for n in climbed}
    total = base / top
    product = math.prod(g1[n] for n in here)
    return {"alone": g1, "in_place": g2, "last": g3, "saved": saved, "total": total, "product": product}

# %% wrong RUNG-SAVED-LAST last
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
    saved = {n: without[n] - top if n in here else None for n in climbed}
    total = base / top
    product = math.prod(g1[n] for n in here)
    return {"alone": g1, "in_place": g2, "last": g3, "saved": saved, "total": total, "product": product}

# %% wrong RUNG-SAVED-SIGN after minus before
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
    saved = {n: climbed[n] - before[n] if n in here else None for n in climbed}
    total = base / top
    product = math.prod(g1[n] for n in here)
    return {"alone": g1, "in_place": g2, "last": g3, "saved": saved, "total": total, "product": product}

# %% wrong RUNG-SAVED-SHARE of all
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
    saved = {n: (before[n] - climbed[n]) / (base - top) if n in here else None for n in climbed}
    total = base / top
    product = math.prod(g1[n] for n in here)
    return {"alone": g1, "in_place": g2, "last": g3, "saved": saved, "total": total, "product": product}

# %% wrong RUNG-TOTAL-PRODUCT multiplied
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
    total = math.prod(g1[n] for n in here)
    product = math.prod(g1[n] for n in here)
    return {"alone": g1, "in_place": g2, "last": g3, "saved": saved, "total": total, "product": product}

# %% wrong RUNG-TOTAL-PRODUCT lasts multiplied
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
    total = math.prod(g3[n] for n in here)
    product = math.prod(g1[n] for n in here)
    return {"alone": g1, "in_place": g2, "last": g3, "saved": saved, "total": total, "product": product}

# %% wrong RUNG-TOP-BEST total of the fastest
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
    total = base / min(steps)
    product = math.prod(g1[n] for n in here)
    return {"alone": g1, "in_place": g2, "last": g3, "saved": saved, "total": total, "product": product}

# %% wrong RUNG-PRODUCT-PLACE in place
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
    product = math.prod(g2[n] for n in here)
    return {"alone": g1, "in_place": g2, "last": g3, "saved": saved, "total": total, "product": product}

# %% wrong RUNG-PRODUCT-LAST last
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
    product = math.prod(g3[n] for n in here)
    return {"alone": g1, "in_place": g2, "last": g3, "saved": saved, "total": total, "product": product}

# %% wrong RUNG-SUM added
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
    product = sum(g1[n] for n in here)
    return {"alone": g1, "in_place": g2, "last": g3, "saved": saved, "total": total, "product": product}

# %% wrong RUNG-SUM percentages added
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
    product = 1 + sum(g1[n] - 1 for n in here)
    return {"alone": g1, "in_place": g2, "last": g3, "saved": saved, "total": total, "product": product}

# %% wrong RUNG-NAMES gaps dropped
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
    g1 = {n: base / alone[n] if n in here else None for n in here}
    g2 = {n: before[n] / climbed[n] if n in here else None for n in here}
    g3 = {n: without[n] / top if n in here else None for n in here}
    saved = {n: before[n] - climbed[n] if n in here else None for n in here}
    total = base / top
    product = math.prod(g1[n] for n in here)
    return {"alone": g1, "in_place": g2, "last": g3, "saved": saved, "total": total, "product": product}

# %% wrong RUNG-NOT-NONE ones
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
    g1 = {n: base / alone[n] if n in here else 1.0 for n in climbed}
    g2 = {n: before[n] / climbed[n] if n in here else None for n in climbed}
    g3 = {n: without[n] / top if n in here else None for n in climbed}
    saved = {n: before[n] - climbed[n] if n in here else None for n in climbed}
    total = base / top
    product = math.prod(g1[n] for n in here)
    return {"alone": g1, "in_place": g2, "last": g3, "saved": saved, "total": total, "product": product}

# %% wrong RUNG-GAP-BASE anew
def rung_gains(base, alone, without, climbed):
    if not alone.keys() == without.keys() == climbed.keys():
        raise ValueError("other rungs")
    for t in [base, *alone.values(), *without.values(), *climbed.values()]:
        if t is not None and not 0 < t < math.inf:
            raise ValueError(f"{t} seconds")
    here = [n for n in climbed if climbed[n] is not None]
    steps = [base] + [climbed[n] for n in here]
    top = steps[-1]
    names = list(climbed)
    before = {n: base if i == 0 or climbed[names[i - 1]] is None else climbed[names[i - 1]] for i, n in enumerate(names)}
    g1 = {n: base / alone[n] if n in here else None for n in climbed}
    g2 = {n: before[n] / climbed[n] if n in here else None for n in climbed}
    g3 = {n: without[n] / top if n in here else None for n in climbed}
    saved = {n: before[n] - climbed[n] if n in here else None for n in climbed}
    total = base / top
    product = math.prod(g1[n] for n in here)
    return {"alone": g1, "in_place": g2, "last": g3, "saved": saved, "total": total, "product": product}

# %% wrong RAISED gaps not thought of
def rung_gains(base, alone, without, climbed):
    if not alone.keys() == without.keys() == climbed.keys():
        raise ValueError("other rungs")
    for t in [base, *alone.values(), *without.values(), *climbed.values()]:
        if t is not None and not 0 < t < math.inf:
            raise ValueError(f"{t} seconds")
    here = list(climbed)
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

# %% wrong RUNG-GUARD any names
def rung_gains(base, alone, without, climbed):
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

# %% wrong RUNG-GUARD any times
def rung_gains(base, alone, without, climbed):
    if not alone.keys() == without.keys() == climbed.keys():
        raise ValueError("other rungs")
    for t in [base, *alone.values(), *without.values(), *climbed.values()]:
        if t is not None and t == 0:
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
