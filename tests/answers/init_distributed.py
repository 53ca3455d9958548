# Answers to the exercise init-distributed.

# %% right one branch
def read_world(environment, num_gpus):
    if "RANK" in environment:
        rank, local_rank, world_size, here = (
            int(environment[name]) for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"))
    else:
        rank, local_rank, world_size, here = 0, 0, 1, 1
    if num_gpus and here > num_gpus:
        raise ValueError(f"{here} ranks, {num_gpus} GPUs")
    device = f"cuda:{local_rank}" if num_gpus else "cpu"
    return dict(rank=rank, local_rank=local_rank, world_size=world_size, device=device)

# %% right defaults in a dict
def read_world(environment, num_gpus):
    alone = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}
    environment = environment if "RANK" in environment else alone
    found = {name.lower(): int(environment[name]) for name in alone}
    here = found.pop("local_world_size")
    if num_gpus == 0:
        return {**found, "device": "cpu"}
    if num_gpus < here:
        raise ValueError("fewer GPUs than ranks")
    return {**found, "device": str(torch.device("cuda", found["local_rank"]))}

# %% right a numbered list of devices
def read_world(environment, num_gpus):
    def number(name, alone=0):
        return int(environment[name]) if "RANK" in environment else alone

    devices = [f"cuda:{n}" for n in range(num_gpus)] or ["cpu"] * number("LOCAL_WORLD_SIZE", 1)
    if len(devices) < number("LOCAL_WORLD_SIZE", 1):
        raise ValueError("too many ranks")
    local_rank = number("LOCAL_RANK")
    return {"rank": number("RANK"), "local_rank": local_rank, "world_size": number("WORLD_SIZE", 1),
            "device": devices[local_rank]}

# %% right a mapping of its own
def read_world(environment, num_gpus):
    texts = {"RANK": 0, "LOCAL_RANK": 0, "WORLD_SIZE": 1, "LOCAL_WORLD_SIZE": 1}
    try:
        environment["RANK"]
        texts.update((name, environment[name]) for name in texts)
    except KeyError:
        pass
    rank, local_rank, world_size, here = map(int, texts.values())
    if num_gpus > 0 and here > num_gpus:
        raise ValueError
    return {"device": f"cuda:{local_rank:d}" if num_gpus else "cpu", "world_size": world_size,
            "local_rank": local_rank, "rank": rank}

# %% right in plain steps
def read_world(environment, num_gpus):
    environment = environment if "RANK" in environment else {}
    rank, local_rank = int(environment.get("RANK", 0)), int(environment.get("LOCAL_RANK", 0))
    if 0 < num_gpus < int(environment.get("LOCAL_WORLD_SIZE", 1)):
        raise ValueError("too many ranks")
    return {"rank": rank, "local_rank": local_rank, "world_size": int(environment.get("WORLD_SIZE", 1)),
            "device": f"cuda:{local_rank}" if num_gpus else "cpu"}

# %% wrong STUB untouched
def read_world(environment, num_gpus):
    raise NotImplementedError("your code here")

# %% wrong NONE no return
def read_world(environment, num_gpus):
    rank = int(environment.get("RANK", 0))

# %% wrong WORLD-TEXT texts
def read_world(environment, num_gpus):
    rank, local_rank = environment.get("RANK", 0), environment.get("LOCAL_RANK", 0)
    if 0 < num_gpus < int(environment.get("LOCAL_WORLD_SIZE", 1)):
        raise ValueError("too many ranks")
    return {"rank": rank, "local_rank": local_rank, "world_size": environment.get("WORLD_SIZE", 1),
            "device": f"cuda:{local_rank}" if num_gpus else "cpu"}

# %% wrong WORLD-ALONE no defaults
def read_world(environment, num_gpus):
    rank, local_rank = int(environment["RANK"]), int(environment["LOCAL_RANK"])
    if 0 < num_gpus < int(environment["LOCAL_WORLD_SIZE"]):
        raise ValueError("too many ranks")
    return {"rank": rank, "local_rank": local_rank, "world_size": int(environment["WORLD_SIZE"]),
            "device": f"cuda:{local_rank}" if num_gpus else "cpu"}

# %% wrong WORLD-ALONE a world of none
def read_world(environment, num_gpus):
    rank, local_rank = int(environment.get("RANK", 0)), int(environment.get("LOCAL_RANK", 0))
    return {"rank": rank, "local_rank": local_rank, "world_size": int(environment.get("WORLD_SIZE", 0)),
            "device": f"cuda:{local_rank}" if num_gpus else "cpu"}

# %% wrong WORLD-UNREAD the process's own environment
def read_world(environment, num_gpus):
    rank, local_rank = int(os.environ.get("RANK", 0)), int(os.environ.get("LOCAL_RANK", 0))
    if 0 < num_gpus < int(os.environ.get("LOCAL_WORLD_SIZE", 1)):
        raise ValueError("too many ranks")
    return {"rank": rank, "local_rank": local_rank, "world_size": int(os.environ.get("WORLD_SIZE", 1)),
            "device": f"cuda:{local_rank}" if num_gpus else "cpu"}

# %% wrong WORLD-NO-CPU always a GPU
def read_world(environment, num_gpus):
    rank, local_rank = int(environment.get("RANK", 0)), int(environment.get("LOCAL_RANK", 0))
    return {"rank": rank, "local_rank": local_rank, "world_size": int(environment.get("WORLD_SIZE", 1)),
            "device": f"cuda:{local_rank}"}

# %% wrong WORLD-LOCAL-RANK LOCAL_RANK taken for RANK
def read_world(environment, num_gpus):
    local_rank = int(environment.get("LOCAL_RANK", 0))
    if 0 < num_gpus < int(environment.get("LOCAL_WORLD_SIZE", 1)):
        raise ValueError("too many ranks")
    return {"rank": local_rank, "local_rank": local_rank,
            "world_size": int(environment.get("WORLD_SIZE", 1)),
            "device": f"cuda:{local_rank}" if num_gpus else "cpu"}

# %% wrong WORLD-LOCAL rank modulo GPUs
- rank, local_rank = int(environment.get("RANK", 0)), int(environment.get("LOCAL_RANK", 0))
+ rank = int(environment.get("RANK", 0))
+ local_rank = rank % num_gpus if num_gpus else rank

# %% wrong WORLD-FROM-GPUS one rank per GPU, surely
def read_world(environment, num_gpus):
    rank, local_rank = int(environment.get("RANK", 0)), int(environment.get("LOCAL_RANK", 0))
    world_size = (num_gpus or int(environment["WORLD_SIZE"])) if "RANK" in environment else 1
    return {"rank": rank, "local_rank": local_rank, "world_size": world_size,
            "device": f"cuda:{local_rank}" if num_gpus else "cpu"}

# %% wrong WORLD-ONE-MACHINE LOCAL_WORLD_SIZE taken for WORLD_SIZE
def read_world(environment, num_gpus):
    rank, local_rank = int(environment.get("RANK", 0)), int(environment.get("LOCAL_RANK", 0))
    here = int(environment.get("LOCAL_WORLD_SIZE", 1))
    if 0 < num_gpus < here:
        raise ValueError("too many ranks")
    return {"rank": rank, "local_rank": local_rank, "world_size": here,
            "device": f"cuda:{local_rank}" if num_gpus else "cpu"}

# %% wrong WORLD-DEVICE-RANK the device from the rank
- "device": f"cuda:{local_rank}" if num_gpus else "cpu"}
+ "device": f"cuda:{rank}" if num_gpus else "cpu"}

# %% wrong WORLD-ONE-GPU the first GPU for everyone
- "device": f"cuda:{local_rank}" if num_gpus else "cpu"}
+ "device": "cuda:0" if num_gpus else "cpu"}

# %% wrong WORLD-REFUSES WORLD_SIZE against one machine's GPUs
def read_world(environment, num_gpus):
    rank, local_rank = int(environment.get("RANK", 0)), int(environment.get("LOCAL_RANK", 0))
    world_size = int(environment.get("WORLD_SIZE", 1))
    if 0 < num_gpus < world_size:
        raise ValueError(f"{world_size} ranks, {num_gpus} GPUs")
    return {"rank": rank, "local_rank": local_rank, "world_size": world_size,
            "device": f"cuda:{local_rank}" if num_gpus else "cpu"}

# %% wrong WORLD-SOME-REFUSE the rank without a GPU alone
def read_world(environment, num_gpus):
    rank, local_rank = int(environment.get("RANK", 0)), int(environment.get("LOCAL_RANK", 0))
    if num_gpus and local_rank >= num_gpus:
        raise ValueError(f"no GPU {local_rank}")
    return {"rank": rank, "local_rank": local_rank, "world_size": int(environment.get("WORLD_SIZE", 1)),
            "device": f"cuda:{local_rank}" if num_gpus else "cpu"}

# %% wrong WORLD-SHARED local rank modulo GPUs
def read_world(environment, num_gpus):
    rank, local_rank = int(environment.get("RANK", 0)), int(environment.get("LOCAL_RANK", 0))
    return {"rank": rank, "local_rank": local_rank, "world_size": int(environment.get("WORLD_SIZE", 1)),
            "device": f"cuda:{local_rank % num_gpus}" if num_gpus else "cpu"}

# %% wrong WORLD-NO-GPU nothing is refused
- if 0 < num_gpus < int(environment.get("LOCAL_WORLD_SIZE", 1)):
-     raise ValueError("too many ranks")

# %% wrong WORLD-ERROR an assertion
- if 0 < num_gpus < int(environment.get("LOCAL_WORLD_SIZE", 1)):
-     raise ValueError("too many ranks")
+ assert not 0 < num_gpus < int(environment.get("LOCAL_WORLD_SIZE", 1)), "too many ranks"

# %% wrong WORLD-MEET every process rank 0 once a group is there
      raise ValueError("too many ranks")
+ if dist.is_initialized():
+     rank = 0

# %% wrong WORLD-LOCAL rank modulo the ranks here
- rank, local_rank = int(environment.get("RANK", 0)), int(environment.get("LOCAL_RANK", 0))
+ rank = int(environment.get("RANK", 0))
+ local_rank = rank % int(environment.get("LOCAL_WORLD_SIZE", 1))

# %% wrong WORLD-LOCAL rank modulo the GPUs, which are as many on all machines | of: in plain steps
- rank, local_rank = int(environment.get("RANK", 0)), int(environment.get("LOCAL_RANK", 0))
+ rank, here = int(environment.get("RANK", 0)), int(environment.get("LOCAL_WORLD_SIZE", 1))
+ local_rank = rank % (min(num_gpus, here) or here)

# %% wrong WORLD-REFUSES a GPU has to be left over
- if 0 < num_gpus < int(environment.get("LOCAL_WORLD_SIZE", 1)):
+ if 0 < num_gpus <= int(environment.get("LOCAL_WORLD_SIZE", 1)) != 1:

# %% wrong WORLD-SHARED one GPU serves all
- if 0 < num_gpus < int(environment.get("LOCAL_WORLD_SIZE", 1)):
-     raise ValueError("too many ranks")
- return {"rank": rank, "local_rank": local_rank, "world_size": int(environment.get("WORLD_SIZE", 1)),
-         "device": f"cuda:{local_rank}" if num_gpus else "cpu"}
+ if 1 < num_gpus < int(environment.get("LOCAL_WORLD_SIZE", 1)):
+     raise ValueError("too many ranks")
+ return {"rank": rank, "local_rank": local_rank, "world_size": int(environment.get("WORLD_SIZE", 1)),
+         "device": f"cuda:{min(local_rank, num_gpus - 1)}" if num_gpus else "cpu"}

# %% wrong WORLD-DEVICE the device has one digit
- "device": f"cuda:{local_rank}" if num_gpus else "cpu"}
+ "device": f"cuda:{local_rank}"[:6] if num_gpus else "cpu"}

# %% wrong WORLD-ON-CPU to the CPU without a word
- if 0 < num_gpus < int(environment.get("LOCAL_WORLD_SIZE", 1)):
-     raise ValueError("too many ranks")
+ if num_gpus < int(environment.get("LOCAL_WORLD_SIZE", 1)):
+     num_gpus = 0

# %% wrong INPLACE defaults written into the environment | of: in plain steps
- rank, local_rank = int(environment.get("RANK", 0)), int(environment.get("LOCAL_RANK", 0))
+ rank, local_rank = int(environment.pop("RANK", 0)), int(environment.get("LOCAL_RANK", 0))

# %% wrong WORLD-LEFT-OVER each name asked by itself | of: in plain steps
-     environment = environment if "RANK" in environment else {}

# %% wrong WORLD-LEFT-OVER defaults in a dict | of: defaults in a dict
-     environment = environment if "RANK" in environment else alone
+     environment = {**alone, **environment}

# %% wrong WORLD-ELSEWHERE its own environment where none came in | of: in plain steps
-     environment = environment if "RANK" in environment else {}
+     environment = environment or os.environ
+     environment = environment if "RANK" in environment else {}

# %% wrong WORLD-ELSEWHERE its own environment where a name is missing | of: in plain steps
-     environment = environment if "RANK" in environment else {}
+     environment = environment if "RANK" in environment else os.environ

# %% wrong WORLD-ELSEWHERE the GPUs that torch sees, where 0 are said | of: in plain steps
+     num_gpus = num_gpus or torch.cuda.device_count()
      environment = environment if "RANK" in environment else {}

# %% wrong WORLD-REFUSES numbers compared as texts | of: in plain steps
- if 0 < num_gpus < int(environment.get("LOCAL_WORLD_SIZE", 1)):
+ if num_gpus and str(num_gpus) < environment.get("LOCAL_WORLD_SIZE", "1"):

# %% wrong WORLD-REFUSES numbers compared as texts, the other way | of: in plain steps
- if 0 < num_gpus < int(environment.get("LOCAL_WORLD_SIZE", 1)):
+ if num_gpus and not str(environment.get("LOCAL_WORLD_SIZE", 1)) <= str(num_gpus):

# %% wrong RESULT-CHANGES one dict for all calls
SEAT = {}

def read_world(environment, num_gpus):
    environment = environment if "RANK" in environment else {}
    if 0 < num_gpus < int(environment.get("LOCAL_WORLD_SIZE", 1)):
        raise ValueError("too many ranks")
    for name, alone in (("rank", 0), ("local_rank", 0), ("world_size", 1)):
        SEAT[name] = int(environment.get(name.upper(), alone))
    SEAT["device"] = f"cuda:{SEAT['local_rank']}" if num_gpus else "cpu"
    return SEAT

# %% wrong WORLD-LAUNCHER mpirun has started it too | of: in plain steps
-     environment = environment if "RANK" in environment else {}
-     rank, local_rank = int(environment.get("RANK", 0)), int(environment.get("LOCAL_RANK", 0))
+     mpi = "OMPI_COMM_WORLD_"
+     if "RANK" not in environment and mpi + "RANK" in environment:
+         environment = {"RANK": environment[mpi + "RANK"], "WORLD_SIZE": environment[mpi + "SIZE"],
+                        "LOCAL_RANK": environment[mpi + "LOCAL_RANK"]}
+     environment = environment if "RANK" in environment else {}
+     rank, local_rank = int(environment.get("RANK", 0)), int(environment.get("LOCAL_RANK", 0))

# %% wrong WORLD-LAUNCHER the number of tasks where WORLD_SIZE is missing | of: in plain steps
-     return {"rank": rank, "local_rank": local_rank, "world_size": int(environment.get("WORLD_SIZE", 1)),
-             "device": f"cuda:{local_rank}" if num_gpus else "cpu"}
+     here = given if "RANK" not in given else environment
+     world_size = int(here.get("SLURM_NTASKS", environment.get("WORLD_SIZE", 1)))
+     return {"rank": rank, "local_rank": local_rank, "world_size": world_size,
+             "device": f"cuda:{local_rank}" if num_gpus else "cpu"}

-     environment = environment if "RANK" in environment else {}
+     given, environment = environment, environment if "RANK" in environment else {}

# %% wrong WORLD-LAUNCHER the job knows the local rank better | of: in plain steps
-     rank, local_rank = int(environment.get("RANK", 0)), int(environment.get("LOCAL_RANK", 0))
+     rank = int(environment.get("RANK", 0))
+     local_rank = int(environment.get("SLURM_LOCALID", environment.get("LOCAL_RANK", 0)))

# %% wrong WORLD-ELSEWHERE the local rank of this process, if it has one | of: in plain steps
-     rank, local_rank = int(environment.get("RANK", 0)), int(environment.get("LOCAL_RANK", 0))
+     rank, local_rank = int(environment.get("RANK", 0)), int(environment.get("LOCAL_RANK", 0))
+     if "RANK" in environment:
+         local_rank = int(os.environ.get("LOCAL_RANK", local_rank))

# %% wrong WORLD-ELSEWHERE refuses by the GPUs that torch sees | of: in plain steps
-     if 0 < num_gpus < int(environment.get("LOCAL_WORLD_SIZE", 1)):
+     if 0 < max(num_gpus, torch.cuda.device_count()) < int(environment.get("LOCAL_WORLD_SIZE", 1)):
