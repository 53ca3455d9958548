# Answers to the exercise fsdp-load-resharded.

# %% right model and optimizer apart
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def load_checkpoint(self, path=None):
        saved = self.read_checkpoint(path)
        if saved is None:
            return 0
        plain = saved.plain
        self.loader.load_state_dict(plain["loader"])
        model, optimizer = get_state_dict(self.plain_model, self.optimizer)
        state = saved.fill({"model": model, "optimizer": optimizer})
        set_model_state_dict(self.plain_model, state["model"])
        set_optimizer_state_dict(self.plain_model, self.optimizer, state["optimizer"])
        self.scaler.load_state_dict(plain["scaler"])
        self.step, self.tokens_seen = plain["step"], plain["tokens_seen"]
        if len(plain["ranks"]) == self.world.world_size:
            restore_random_states(plain["ranks"][self.world.rank])
        return self.step

# %% right the random states first of all, the rest below
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def load_checkpoint(self, path=None):
        if (saved := self.read_checkpoint(path)) is not None:
            self.loader.load_state_dict(saved.plain["loader"])
            parts = dict(zip(("model", "optimizer"), get_state_dict(self.plain_model, self.optimizer)))
            parts = saved.fill(parts)
            set_state_dict(self.plain_model, self.optimizer, model_state_dict=parts["model"],
                           optim_state_dict=parts["optimizer"])
            self.scaler.load_state_dict(saved.plain["scaler"])
            self.tokens_seen = saved.plain["tokens_seen"]
            self.step = saved.plain["step"]
            ranks = saved.plain["ranks"]
            if len(ranks) == self.world.world_size:
                restore_random_states(ranks[self.world.rank])
        return 0 if saved is None else self.step

# %% right in order
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def load_checkpoint(self, path=None):
        saved = self.read_checkpoint(path)
        if saved is None:
            return 0
        plain = saved.plain
        self.loader.load_state_dict(plain["loader"])
        model, optimizer = get_state_dict(self.plain_model, self.optimizer)
        state = saved.fill({"model": model, "optimizer": optimizer})
        set_state_dict(
            self.plain_model,
            self.optimizer,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
        )
        self.scaler.load_state_dict(plain["scaler"])
        self.step, self.tokens_seen = plain["step"], plain["tokens_seen"]
        if len(plain["ranks"]) == self.world.world_size:
            restore_random_states(plain["ranks"][self.world.rank])
        return self.step

# %% wrong LOAD-EMPTY something is always there
- if saved is None:
-     return 0

# %% wrong LOAD-NO-MOMENTS the weights alone | of: model and optimizer apart
  model, optimizer = get_state_dict(self.plain_model, self.optimizer)
+ moments = {name: {k: t.clone() for k, t in m.items()} for name, m in optimizer["state"].items()}
+ optimizer["state"] = moments

- set_optimizer_state_dict(self.plain_model, self.optimizer, state["optimizer"])

# %% wrong LOAD-NO-STEP resumes at step 0
- self.step, self.tokens_seen = plain["step"], plain["tokens_seen"]
+ self.tokens_seen = plain["tokens_seen"]

- return self.step
+ return plain["step"]

# %% wrong LOAD-NO-LOADER reads from the beginning
- self.loader.load_state_dict(plain["loader"])

# %% wrong LOAD-WORLD another number of ranks refused
  plain = saved.plain
+ if len(plain["ranks"]) != self.world.world_size:
+     raise ValueError(f"saved on {len(plain['ranks'])} ranks, this run has {self.world.world_size}")

- if len(plain["ranks"]) == self.world.world_size:
-     restore_random_states(plain["ranks"][self.world.rank])
+ restore_random_states(plain["ranks"][self.world.rank])

# %% wrong LOAD-WORLD a random state for every rank
- if len(plain["ranks"]) == self.world.world_size:
-     restore_random_states(plain["ranks"][self.world.rank])
+ restore_random_states(plain["ranks"][self.world.rank])

# %% wrong LOAD-RANDOM rank 0's for all
- if len(plain["ranks"]) == self.world.world_size:
-     restore_random_states(plain["ranks"][self.world.rank])
+ restore_random_states(plain["ranks"][0])

# %% wrong LOAD-POSITION moments in the order of the parameters | of: model and optimizer apart
- set_optimizer_state_dict(self.plain_model, self.optimizer, state["optimizer"])
+ moments = list(state["optimizer"]["state"].values())
+ self.optimizer.state.update(zip(self.plain_model.parameters(), moments))

# %% wrong LOAD-HALF-SAVE the last folder by name
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def load_checkpoint(self, path=None):
        folders = sorted((Path(self.config.out) / "checkpoints").glob("step_*"))
        if path is None and not folders:
            return 0
        path = Path(path or folders[-1])
        plain = whole.load(path / "plain.pt")
        self.loader.load_state_dict(plain["loader"])
        model, optimizer = get_state_dict(self.plain_model, self.optimizer)
        state = {"model": model, "optimizer": optimizer}
        tensors = flatten(state)
        dcp.load(tensors, checkpoint_id=path)
        optimizer |= {"param_groups": plain["optimizer"]["param_groups"]}
        set_state_dict(self.plain_model, self.optimizer, model_state_dict=model, optim_state_dict=optimizer)
        self.scaler.load_state_dict(plain["scaler"])
        self.step, self.tokens_seen = plain["step"], plain["tokens_seen"]
        if len(plain["ranks"]) == self.world.world_size:
            restore_random_states(plain["ranks"][self.world.rank])
        return self.step

# %% wrong LOAD-SENDS whole on rank 0, then to all
- model, optimizer = get_state_dict(self.plain_model, self.optimizer)
+ options = StateDictOptions(full_state_dict=True)
+ model, optimizer = get_state_dict(self.plain_model, self.optimizer, options=options)

  optim_state_dict=state["optimizer"],
+ options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True),

# %% wrong LOAD-SENDS gathered whole where this run saves one file | of: in order
- model, optimizer = get_state_dict(self.plain_model, self.optimizer)
+ options = StateDictOptions(full_state_dict=self.config.checkpoint == "full")
+ model, optimizer = get_state_dict(self.plain_model, self.optimizer, options=options)

  optim_state_dict=state["optimizer"],
+ options=options,

# %% wrong LOAD-HALF the loader at the end
- self.loader.load_state_dict(plain["loader"])

  self.step, self.tokens_seen = plain["step"], plain["tokens_seen"]
+ self.loader.load_state_dict(plain["loader"])

# %% wrong LOAD-NO-GROUPS nothing beside what `fill` overwrites | of: in order
- state = saved.fill({"model": model, "optimizer": optimizer})
- set_state_dict(
-     self.plain_model,
-     self.optimizer,
-     model_state_dict=state["model"],
-     optim_state_dict=state["optimizer"],
- )
+ saved.fill({"model": model, "optimizer": optimizer})

# %% wrong LOAD-NO-SCALER the scale alone | of: in order
- self.scaler.load_state_dict(plain["scaler"])
+ self.scaler.load_state_dict(self.scaler.state_dict() | {"scale": plain["scaler"]["scale"]})

# %% wrong LOAD-RANDOM the seeds alone | of: in order
- restore_random_states(plain["ranks"][self.world.rank])
+ own = plain["ranks"][self.world.rank]["torch"]
+ torch.manual_seed(int.from_bytes(own[:8].tolist(), "little"))

# %% wrong LOAD-CONFIG the settings that were saved | of: in order
- self.step, self.tokens_seen = plain["step"], plain["tokens_seen"]
+ self.step, self.tokens_seen = plain["step"], plain["tokens_seen"]
+ self.config = dataclasses.replace(self.config, max_steps=plain["config"]["max_steps"])

# %% wrong LOAD-HALF a new optimizer gets its state before the loader may refuse | of: in order
- self.loader.load_state_dict(plain["loader"])
  model, optimizer = get_state_dict(self.plain_model, self.optimizer)
+ self.loader.load_state_dict(plain["loader"])

# %% wrong LOAD-EMPTY its own step where there is no checkpoint | of: in order
- return 0
+ return self.step

# %% wrong LOAD-RANDOM by the number on the machine | of: in order
- restore_random_states(plain["ranks"][self.world.rank])
+ here = torch.distributed.get_node_local_rank(fallback_rank=self.world.rank)
+ restore_random_states(plain["ranks"][here])

# %% wrong LOAD-RANDOM by the number among those that share a copy | of: in order
- restore_random_states(plain["ranks"][self.world.rank])
+ restore_random_states(plain["ranks"][self.mesh.get_coordinate()[-1]])

# %% wrong LOAD-RANDOM on the first rank of a machine alone | of: in order
- if len(plain["ranks"]) == self.world.world_size:
+ first = os.environ.get("LOCAL_RANK", "0") == "0"
+ if len(plain["ranks"]) == self.world.world_size and first:

# %% wrong LOAD-RANDOM where as many ranks share a machine | of: in order
- if len(plain["ranks"]) == self.world.world_size:
+ if len(plain["ranks"]) == int(os.environ.get("LOCAL_WORLD_SIZE", self.world.world_size)):

# %% wrong LOAD-STEP-ZERO a checkpoint of step 0 counts as none | of: in order
- if saved is None:
-     return 0
+ if saved is None or not saved.plain["step"]:
+     return 0
