# Answers to the exercise collective-cost.

# %% right messages of one chunk
def collective_cost(name, num_bytes, world_size, *, latency_s=0.0, bytes_per_s=float("inf")):
    rounds = {"reduce_scatter": 1, "all_gather": 1, "all_reduce": 2}
    if name not in rounds:
        raise ValueError(f"no collective {name!r}")
    if world_size < 1:
        raise ValueError(f"a world of {world_size} ranks")
    messages = rounds[name] * (world_size - 1)
    each = num_bytes / world_size
    return {"messages": messages, "bytes": messages * each,
            "seconds": messages * (latency_s + each / bytes_per_s)}

# %% right an all-reduce made of the two others
def collective_cost(name, num_bytes, world_size, *, latency_s=0.0, bytes_per_s=float("inf")):
    if world_size <= 0:
        raise ValueError("at least one rank")
    if name == "all_reduce":
        parts = [collective_cost(n, num_bytes, world_size, latency_s=latency_s, bytes_per_s=bytes_per_s)
                 for n in ("reduce_scatter", "all_gather")]
        return {key: sum(part[key] for part in parts) for key in parts[0]}
    if name not in ("reduce_scatter", "all_gather"):
        raise ValueError(name)
    sent = (1 - 1 / world_size) * num_bytes
    return {"messages": world_size - 1, "bytes": sent,
            "seconds": (world_size - 1) * latency_s + sent / bytes_per_s}

# %% right step by step
def collective_cost(name, num_bytes, world_size, *, latency_s=0.0, bytes_per_s=float("inf")):
    if world_size < 1 or name not in ("reduce_scatter", "all_gather", "all_reduce"):
        raise ValueError(f"{name!r} on {world_size} ranks")
    found = dict(messages=0, bytes=0.0, seconds=0.0)
    for _ in range((1 + (name == "all_reduce")) * (world_size - 1)):
        found["messages"] += 1
        found["bytes"] += num_bytes / world_size
        found["seconds"] += latency_s + num_bytes / world_size / bytes_per_s
    return found

# %% wrong STUB untouched
def collective_cost(name, num_bytes, world_size, *, latency_s=0.0, bytes_per_s=float("inf")):
    raise NotImplementedError("your code here")

# %% wrong COST-KEYS the bytes alone
def collective_cost(name, num_bytes, world_size, *, latency_s=0.0, bytes_per_s=float("inf")):
    rounds = {"reduce_scatter": 1, "all_gather": 1, "all_reduce": 2}
    return rounds[name] * (world_size - 1) * num_bytes / world_size

# %% wrong TYPE messages as a float
def collective_cost(name, num_bytes, world_size, *, latency_s=0.0, bytes_per_s=float("inf")):
    rounds = {"reduce_scatter": 1, "all_gather": 1, "all_reduce": 2}
    if name not in rounds or world_size < 1:
        raise ValueError(name)
    sent = rounds[name] * (world_size - 1) * num_bytes / world_size
    messages = sent / (num_bytes / world_size)
    return {"messages": messages, "bytes": sent, "seconds": messages * latency_s + sent / bytes_per_s}

# %% wrong COST-R-1 R - 1 tensors
def collective_cost(name, num_bytes, world_size, *, latency_s=0.0, bytes_per_s=float("inf")):
    rounds = {"reduce_scatter": 1, "all_gather": 1, "all_reduce": 2}
    if name not in rounds or world_size < 1:
        raise ValueError(name)
    messages = rounds[name] * (world_size - 1)
    sent = float(messages * num_bytes)
    return {"messages": messages, "bytes": sent, "seconds": messages * latency_s + sent / bytes_per_s}

# %% wrong COST-ONCE an all-reduce like the others
def collective_cost(name, num_bytes, world_size, *, latency_s=0.0, bytes_per_s=float("inf")):
    if name not in ("reduce_scatter", "all_gather", "all_reduce") or world_size < 1:
        raise ValueError(name)
    messages = world_size - 1
    sent = messages * num_bytes / world_size
    return {"messages": messages, "bytes": sent, "seconds": messages * latency_s + sent / bytes_per_s}

# %% wrong COST-ONCE two rounds of bytes, one of messages
def collective_cost(name, num_bytes, world_size, *, latency_s=0.0, bytes_per_s=float("inf")):
    rounds = {"reduce_scatter": 1, "all_gather": 1, "all_reduce": 2}
    if name not in rounds or world_size < 1:
        raise ValueError(name)
    messages = world_size - 1
    sent = rounds[name] * messages * num_bytes / world_size
    return {"messages": messages, "bytes": sent, "seconds": messages * latency_s + sent / bytes_per_s}

# %% wrong COST-WHOLE the limit for many ranks
def collective_cost(name, num_bytes, world_size, *, latency_s=0.0, bytes_per_s=float("inf")):
    rounds = {"reduce_scatter": 1, "all_gather": 1, "all_reduce": 2}
    if name not in rounds or world_size < 1:
        raise ValueError(name)
    messages = rounds[name] * (world_size - 1)
    sent = float(rounds[name] * num_bytes) if world_size > 1 else 0.0
    return {"messages": messages, "bytes": sent, "seconds": messages * latency_s + sent / bytes_per_s}

# %% wrong COST-MESSAGES one message for each rank
def collective_cost(name, num_bytes, world_size, *, latency_s=0.0, bytes_per_s=float("inf")):
    rounds = {"reduce_scatter": 1, "all_gather": 1, "all_reduce": 2}
    if name not in rounds or world_size < 1:
        raise ValueError(name)
    messages = rounds[name] * world_size
    sent = rounds[name] * (world_size - 1) * num_bytes / world_size
    return {"messages": messages, "bytes": sent, "seconds": messages * latency_s + sent / bytes_per_s}

# %% wrong COST-LATENCY one latency for the whole collective
def collective_cost(name, num_bytes, world_size, *, latency_s=0.0, bytes_per_s=float("inf")):
    rounds = {"reduce_scatter": 1, "all_gather": 1, "all_reduce": 2}
    if name not in rounds or world_size < 1:
        raise ValueError(name)
    messages = rounds[name] * (world_size - 1)
    sent = messages * num_bytes / world_size
    return {"messages": messages, "bytes": sent, "seconds": latency_s + sent / bytes_per_s}

# %% wrong COST-ALONE one rank sends to itself
def collective_cost(name, num_bytes, world_size, *, latency_s=0.0, bytes_per_s=float("inf")):
    rounds = {"reduce_scatter": 1, "all_gather": 1, "all_reduce": 2}
    if name not in rounds or world_size < 1:
        raise ValueError(name)
    messages = rounds[name] * max(1, world_size - 1)
    each = num_bytes / world_size
    return {"messages": messages, "bytes": messages * each,
            "seconds": messages * (latency_s + each / bytes_per_s)}

# %% wrong COST-ROUNDED whole bytes
def collective_cost(name, num_bytes, world_size, *, latency_s=0.0, bytes_per_s=float("inf")):
    rounds = {"reduce_scatter": 1, "all_gather": 1, "all_reduce": 2}
    if name not in rounds or world_size < 1:
        raise ValueError(name)
    messages = rounds[name] * (world_size - 1)
    each = num_bytes // world_size
    return {"messages": messages, "bytes": messages * each,
            "seconds": messages * (latency_s + each / bytes_per_s)}

# %% wrong COST-NAME KeyError for an unknown name
def collective_cost(name, num_bytes, world_size, *, latency_s=0.0, bytes_per_s=float("inf")):
    if world_size < 1:
        raise ValueError(world_size)
    messages = {"reduce_scatter": 1, "all_gather": 1, "all_reduce": 2}[name] * (world_size - 1)
    each = num_bytes / world_size
    return {"messages": messages, "bytes": messages * each,
            "seconds": messages * (latency_s + each / bytes_per_s)}

# %% wrong COST-WORLD a world of no rank
def collective_cost(name, num_bytes, world_size, *, latency_s=0.0, bytes_per_s=float("inf")):
    rounds = {"reduce_scatter": 1, "all_gather": 1, "all_reduce": 2}
    if name not in rounds:
        raise ValueError(name)
    if world_size <= 1:
        return {"messages": 0, "bytes": 0.0, "seconds": 0.0}
    messages = rounds[name] * (world_size - 1)
    each = num_bytes / world_size
    return {"messages": messages, "bytes": messages * each,
            "seconds": messages * (latency_s + each / bytes_per_s)}

# %% wrong COST-NAME names are made to fit | of: messages of one chunk
  rounds = {"reduce_scatter": 1, "all_gather": 1, "all_reduce": 2}
+ name = name.lower().replace("-", "_")

# %% wrong COST-ONE-GIVEN no time where no bandwidth is given | of: messages of one chunk
  rounds = {"reduce_scatter": 1, "all_gather": 1, "all_reduce": 2}
+ if bytes_per_s == float("inf"):
+     latency_s = 0.0

# %% wrong COST-ONE-GIVEN a tensor without bytes sends nothing | of: messages of one chunk
  rounds = {"reduce_scatter": 1, "all_gather": 1, "all_reduce": 2}
+ if not num_bytes and name in rounds:
+     return {"messages": 0, "bytes": 0.0, "seconds": 0.0}

# %% wrong COST-ONE-GIVEN no latency taken for not said | of: messages of one chunk
  rounds = {"reduce_scatter": 1, "all_gather": 1, "all_reduce": 2}
+ if bytes_per_s < float("inf"):
+     latency_s = latency_s or 1e-6

# %% right a time for each message, one after the other
def collective_cost(name, num_bytes, world_size, latency_s=0.0, bytes_per_s=float('inf')):
    rings = ("reduce_scatter", "all_gather", "all_reduce", "all_reduce").count(name)
    if not rings or not world_size > 0:
        raise ValueError((name, world_size))
    steps = range(1, world_size)
    sent = [num_bytes / world_size for _ in range(rings) for _ in steps]
    return dict(messages=len(sent), bytes=sum(sent),
                seconds=sum(latency_s + b / bytes_per_s for b in sent))

# %% wrong ENVIRONMENT the ranks of the group | of: messages of one chunk
- messages = rounds[name] * (world_size - 1)
+ if torch.distributed.is_initialized() and torch.distributed.get_world_size() > world_size:
+     world_size = torch.distributed.get_world_size()
+ messages = rounds[name] * (world_size - 1)

# %% wrong ENVIRONMENT the ranks of the launcher | of: messages of one chunk
- messages = rounds[name] * (world_size - 1)
+ import os
+ world_size = int(os.environ.get("LOCAL_WORLD_SIZE", world_size))
+ messages = rounds[name] * (world_size - 1)

# %% wrong COST-WRAPS bytes in a tensor | of: messages of one chunk
- return {"messages": messages, "bytes": messages * each,
-         "seconds": messages * (latency_s + each / bytes_per_s)}
+ sent = (torch.tensor(num_bytes) * messages).item() / world_size
+ return {"messages": messages, "bytes": sent, "seconds": messages * latency_s + sent / bytes_per_s}

# %% wrong COST-WRAPS the time of bytes in an int64 | of: messages of one chunk
- return {"messages": messages, "bytes": messages * each,
-         "seconds": messages * (latency_s + each / bytes_per_s)}
+ whole = (num_bytes * messages + 2**63) % 2**64 - 2**63
+ return {"messages": messages, "bytes": messages * each,
+         "seconds": messages * latency_s + whole / world_size / bytes_per_s}
