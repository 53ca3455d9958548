# Answers to the exercise load-checkpoint.

# %% right names cut by hand
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def load_checkpoint(self, path=None):
        state = self.read_checkpoint(path)
        if not state:
            return 0
        model = {n.replace("module.", "").replace("_orig_mod.", ""): w for n, w in state["model"].items()}
        own = self.plain_model.state_dict()
        if {n: w.shape for n, w in own.items()} != {n: w.shape for n, w in model.items()}:
            raise ValueError("a checkpoint of another model")
        for part, held in (("loader", self.loader), ("scaler", self.scaler), ("optimizer", self.optimizer)):
            held.load_state_dict(state[part])
        with torch.no_grad():
            for name, weight in own.items():
                weight.copy_(model[name])
        self.step, self.tokens_seen = state["step"], state["tokens_seen"]
        ranks = state["ranks"]
        if len(ranks) == self.world.world_size:
            restore_random_states(ranks[self.world.rank])
        return state["step"]

# %% right random states first of what cannot fail
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def load_checkpoint(self, path=None):
        state = self.read_checkpoint(path)
        if state is None:
            return 0
        weights = plain_names(state["model"])
        refuse_other_shapes(weights, self.plain_model.state_dict())
        self.loader.load_state_dict(state["loader"])
        if len(state["ranks"]) == self.world.world_size:
            restore_random_states(state["ranks"][self.world.rank])
        self.step = state["step"]
        self.tokens_seen = state["tokens_seen"]
        self.scaler.load_state_dict(state["scaler"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.plain_model.load_state_dict(weights)
        return self.step

# %% right a loop over what has a state
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def load_checkpoint(self, path=None):
        state = self.read_checkpoint(path)
        if state is not None:
            state["model"] = plain_names(state["model"])
            refuse_other_shapes(state["model"], self.plain_model.state_dict())
            for part in ("loader", "model", "optimizer", "scaler"):
                getattr(self, {"model": "plain_model"}.get(part, part)).load_state_dict(state[part])
            self.step, self.tokens_seen, ranks = (state[k] for k in ("step", "tokens_seen", "ranks"))
            if len(ranks) == self.world.world_size:
                restore_random_states(ranks[self.world.rank])
        return 0 if state is None else self.step

# %% right part by part
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def load_checkpoint(self, path=None):
        state = self.read_checkpoint(path)
        if state is None:
            return 0
        weights = plain_names(state["model"])
        refuse_other_shapes(weights, self.plain_model.state_dict())
        self.loader.load_state_dict(state["loader"])
        self.plain_model.load_state_dict(weights)
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        self.step = state["step"]
        self.tokens_seen = state["tokens_seen"]
        if len(state["ranks"]) == self.world.world_size:
            restore_random_states(state["ranks"][self.world.rank])
        return self.step

# %% wrong LOAD-EMPTY nothing there not thought of
- if state is None:
-     return 0

# %% wrong LOAD-EMPTY None for nothing
- return 0
+ return None

# %% wrong LOAD-EMPTY an error for nothing
- return 0
+ raise FileNotFoundError("no checkpoint")

# %% wrong LOAD-PATH the newest whatever is asked for
- state = self.read_checkpoint(path)
+ state = self.read_checkpoint()

# %% wrong LOAD-PATH the condition the wrong way round
  state = self.read_checkpoint(path)
+ if path is not None:
+     return 0

# %% wrong LOAD-NO-MODEL weights not put back
- self.plain_model.load_state_dict(weights)

# %% wrong LOAD-NO-MODEL weights put into a copy
- self.plain_model.load_state_dict(weights)
+ self.plain_model.state_dict().update(weights)

# %% wrong LOAD-MODEL weights through 32 bits
- self.plain_model.load_state_dict(weights)
+ self.plain_model.load_state_dict({name: w.float() for name, w in weights.items()})

# %% wrong LOAD-MODEL weights of the same number of ranks alone
- self.plain_model.load_state_dict(weights)
+ if len(state["ranks"]) == self.world.world_size or self.world.world_size == 1:
+     self.plain_model.load_state_dict(weights)

# %% wrong LOAD-NO-OPTIMIZER optimizer not put back
- self.optimizer.load_state_dict(state["optimizer"])

# %% wrong LOAD-NO-OPTIMIZER groups alone
- self.optimizer.load_state_dict(state["optimizer"])
+ self.optimizer.load_state_dict({"state": {}, "param_groups": state["optimizer"]["param_groups"]})

# %% wrong LOAD-NO-OPTIMIZER a new optimizer afterwards
  self.scaler.load_state_dict(state["scaler"])
+ self.optimizer = self._setup_optimizer()

# %% wrong LOAD-NO-STEP step not put back
- self.step = state["step"]

- return self.step
+ return state["step"]

# %% wrong LOAD-NO-STEP a local variable
- self.step = state["step"]
+ step = state["step"]

- return self.step
+ return step

# %% wrong LOAD-NO-STEP one step further
- self.step = state["step"]
+ self.step = state["step"] + 1

# %% wrong LOAD-NO-TOKENS count of tokens not put back
- self.tokens_seen = state["tokens_seen"]

# %% wrong LOAD-NO-LOADER loader not put back
- self.loader.load_state_dict(state["loader"])

# %% wrong LOAD-NO-LOADER loader at the step
- self.loader.load_state_dict(state["loader"])
+ self.loader.load_state_dict(state["loader"] | {"next_window": state["step"]})

# %% wrong LOAD-NO-SCALER scaler not put back
- self.scaler.load_state_dict(state["scaler"])

# %% wrong LOAD-NO-RANDOM random states not put back
- if len(state["ranks"]) == self.world.world_size:
-     restore_random_states(state["ranks"][self.world.rank])

# %% wrong LOAD-NO-RANDOM torch's alone
- restore_random_states(state["ranks"][self.world.rank])
+ torch.set_rng_state(state["ranks"][self.world.rank]["torch"])

# %% wrong LOAD-NO-RANDOM seeded anew after the restore
      restore_random_states(state["ranks"][self.world.rank])
+ torch.manual_seed(self.config.seed)

# %% wrong LOAD-RETURN the count of tokens
- return self.step
+ return self.tokens_seen

# %% wrong LOAD-RETURN True
- return self.step
+ return True

# %% wrong NONE no return
- return self.step

# %% wrong LOAD-WRAPPED names as they are
- weights = plain_names(state["model"])
+ weights = state["model"]

# %% wrong LOAD-WRAPPED module. alone
- weights = plain_names(state["model"])
+ weights = {n.removeprefix("module."): w for n, w in state["model"].items()}

# %% wrong LOAD-WRAPPED module. before _orig_mod. alone
- weights = plain_names(state["model"])
+ weights = {n.removeprefix("module.").removeprefix("_orig_mod."): w for n, w in state["model"].items()}

# %% wrong LOAD-WRAPPED names that do not fit passed over
- weights = plain_names(state["model"])
- refuse_other_shapes(weights, self.plain_model.state_dict())
+ weights = state["model"]
  self.loader.load_state_dict(state["loader"])
- self.plain_model.load_state_dict(weights)
+ self.plain_model.load_state_dict(weights, strict=False)

# %% wrong LOAD-ACCEPTS missing matrices passed over
- refuse_other_shapes(weights, self.plain_model.state_dict())
+ own = self.plain_model.state_dict()
+ for n, w in weights.items():
+     if w.shape != own[n].shape:
+         raise ValueError(n)
  self.loader.load_state_dict(state["loader"])
- self.plain_model.load_state_dict(weights)
+ self.plain_model.load_state_dict(weights, strict=False)

# %% wrong LOAD-ACCEPTS only what fits
- refuse_other_shapes(weights, self.plain_model.state_dict())
+ own = self.plain_model.state_dict()
+ weights = own | {n: w for n, w in weights.items() if w.shape == own[n].shape}

# %% wrong LOAD-HALF no look at the shapes first
- refuse_other_shapes(weights, self.plain_model.state_dict())

# %% wrong LOAD-HALF the step first
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def load_checkpoint(self, path=None):
        state = self.read_checkpoint(path)
        if state is None:
            return 0
        self.step = state["step"]
        self.tokens_seen = state["tokens_seen"]
        weights = plain_names(state["model"])
        refuse_other_shapes(weights, self.plain_model.state_dict())
        self.loader.load_state_dict(state["loader"])
        self.plain_model.load_state_dict(weights)
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        if len(state["ranks"]) == self.world.world_size:
            restore_random_states(state["ranks"][self.world.rank])
        return self.step

# %% wrong LOAD-HALF the loader after the weights
- self.loader.load_state_dict(state["loader"])

  self.scaler.load_state_dict(state["scaler"])
+ self.loader.load_state_dict(state["loader"])

# %% wrong LOAD-HALF the loader before the look at the shapes
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def load_checkpoint(self, path=None):
        state = self.read_checkpoint(path)
        if state is None:
            return 0
        self.loader.load_state_dict(state["loader"])
        weights = plain_names(state["model"])
        refuse_other_shapes(weights, self.plain_model.state_dict())
        self.plain_model.load_state_dict(weights)
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        self.step = state["step"]
        self.tokens_seen = state["tokens_seen"]
        if len(state["ranks"]) == self.world.world_size:
            restore_random_states(state["ranks"][self.world.rank])
        return self.step

# %% wrong LOAD-ERROR an assertion
- refuse_other_shapes(weights, self.plain_model.state_dict())
+ own = self.plain_model.state_dict()
+ assert {n: w.shape for n, w in own.items()} == {n: w.shape for n, w in weights.items()}

# %% wrong LOAD-RANKS the first rank's states whoever saved
- if len(state["ranks"]) == self.world.world_size:
-     restore_random_states(state["ranks"][self.world.rank])
+ restore_random_states(state["ranks"][self.world.rank])

# %% wrong LOAD-FIRST-LOSS the head's own draw
      restore_random_states(state["ranks"][self.world.rank])
+ if self.optimizer.state:
+     torch.nn.init.normal_(self.plain_model.norm.weight, 1.0, 0.02)

# %% wrong LOAD-ERROR an object in place of its state
- self.optimizer.load_state_dict(state["optimizer"])
+ self.optimizer.load_state_dict(state["optimizer"]["state"])

# %% wrong LOAD-EMPTY the step of the trainer where nothing is | of: part by part
- if state is None:
-     return 0
+ if state is None:
+     return self.step

# %% wrong LOAD-ONE-RANK rank 0 reads and tells the others | of: part by part
- state = self.read_checkpoint(path)
+ state = self.read_checkpoint(path) if self.world.is_first else None
+ state = self.world.broadcast(state)

# %% wrong LOAD-APART the weights on rank 0 alone | of: part by part
- self.plain_model.load_state_dict(weights)
+ if self.world.is_first:
+     self.plain_model.load_state_dict(weights)

# %% wrong LOAD-ERROR into the wrapped model | of: part by part
- self.plain_model.load_state_dict(weights)
+ self.model.load_state_dict(weights)

# %% wrong LOAD-CONFIG the settings of the file | of: part by part
  self.step = state["step"]
+ self.config = type(self.config)(**(vars(self.config) | state["config"]))

# %% wrong LOAD-RANDOM-RANK the random states of rank 0 on every rank | of: part by part
- restore_random_states(state["ranks"][self.world.rank])
+ restore_random_states(state["ranks"][0])

# %% wrong LOAD-RANKS of more ranks those that fit | of: part by part
- if len(state["ranks"]) == self.world.world_size:
+ if len(state["ranks"]) >= self.world.world_size > 1 or len(state["ranks"]) == 1:

# %% wrong LOAD-APART nothing without a path | of: part by part
  state = self.read_checkpoint(path)
- if state is None:
+ if state is None or path is None:

# %% wrong LOAD-PATH another default for the path | of: part by part
- def load_checkpoint(self, path=None):
+ def load_checkpoint(self, path=0):

# %% wrong LOAD-STEP-ZERO a step of 0 is none | of: part by part
- if state is None:
+ if state is None or not state["step"]:

# %% wrong LOAD-STEP-ZERO counters by or | of: part by part
- self.step = state["step"]
- self.tokens_seen = state["tokens_seen"]
+ self.step = state["step"] or self.step
+ self.tokens_seen = state["tokens_seen"] or self.tokens_seen

# %% wrong LOAD-GROUPS moments alone | of: part by part
- self.optimizer.load_state_dict(state["optimizer"])
+ own = self.optimizer.state_dict()["param_groups"]
+ self.optimizer.load_state_dict({"state": state["optimizer"]["state"], "param_groups": own})

# %% wrong LOAD-RETURN a float | of: part by part
- return self.step
+ return float(self.step)

# %% wrong LOAD-RANKS of fewer ranks those that are there | of: part by part
- if len(state["ranks"]) == self.world.world_size:
-     restore_random_states(state["ranks"][self.world.rank])
+ if len(state["ranks"]) <= self.world.world_size:
+     restore_random_states(state["ranks"][self.world.rank % len(state["ranks"])])

# %% wrong LOAD-ACCEPTS more than it has | of: part by part
- refuse_other_shapes(weights, self.plain_model.state_dict())
+ weights = {n: w for n, w in weights.items() if n in self.plain_model.state_dict()}
+ refuse_other_shapes(weights, self.plain_model.state_dict())

# %% right groups of the optimizer by hand, and a step of its own name
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def load_checkpoint(self, path=None):
        found = self.read_checkpoint(path=path)
        if found is None:
            return 0
        weights = plain_names(found.pop("model"))
        refuse_other_shapes(weights, self.plain_model.state_dict())
        self.loader.load_state_dict(found["loader"])
        for name, parameter in self.plain_model.named_parameters():
            parameter.data.copy_(weights[name])
        self.optimizer.load_state_dict(found["optimizer"])
        self.scaler.load_state_dict(found["scaler"])
        self.tokens_seen, self.step = found["tokens_seen"], int(found["step"])
        states = found["ranks"]
        restore_random_states(states[self.world.rank]) if len(states) == self.world.world_size else None
        return self.step

# %% wrong LOAD-RANDOM-RANK the random states by the number on the machine | of: part by part
- restore_random_states(state["ranks"][self.world.rank])
+ restore_random_states(state["ranks"][torch.distributed.get_node_local_rank(self.world.rank)])

# %% wrong LOAD-RANDOM-RANK the random states on the first rank of a machine alone | of: part by part
- restore_random_states(state["ranks"][self.world.rank])
+ if os.environ.get("LOCAL_RANK", "0") == "0":
+     restore_random_states(state["ranks"][self.world.rank])
