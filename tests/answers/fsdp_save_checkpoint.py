# Answers to the exercise fsdp-save-checkpoint.

# %% right model and optimizer apart, part by part
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def save_checkpoint(self):
        options = StateDictOptions()
        if self.config.checkpoint == "full":
            options = StateDictOptions(full_state_dict=True, cpu_offload=True)
        state = {part: getattr(self, part).state_dict() for part in ("scaler", "loader")}
        state["model"] = get_model_state_dict(self.plain_model, options=options)
        state["optimizer"] = get_optimizer_state_dict(self.plain_model, self.optimizer, options=options)
        state |= {"step": self.step, "tokens_seen": self.tokens_seen, "config": vars(self.config).copy()}
        random = random_states()
        state["ranks"] = self.world.gather(random)
        return str(self.write_checkpoint(state))

# %% right full by hand, moved off the other ranks
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def save_checkpoint(self):
        full = self.config.checkpoint == "full"
        options = StateDictOptions(full_state_dict=full)
        model, optimizer = get_state_dict(self.plain_model, self.optimizer, options=options)
        if full and not self.world.is_first:
            model, optimizer = {}, {}
        return self.write_checkpoint({
            "step": self.step,
            "tokens_seen": self.tokens_seen,
            "model": model,
            "optimizer": optimizer,
            "scaler": self.scaler.state_dict(),
            "loader": self.loader.state_dict(),
            "ranks": self.world.gather(random_states()),
            "config": dataclasses.asdict(self.config),
        })

# %% right random states from everybody to everybody
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def save_checkpoint(self):
        full = self.config.checkpoint == "full"
        options = StateDictOptions(full_state_dict=full, cpu_offload=full)
        model, optimizer = get_state_dict(self.plain_model, self.optimizer, options=options)
        ranks = [None] * self.world.world_size
        dist.all_gather_object(ranks, random_states())
        return self.write_checkpoint({
            "step": self.step, "tokens_seen": self.tokens_seen, "model": model, "optimizer": optimizer,
            "scaler": self.scaler.state_dict(), "loader": self.loader.state_dict(), "ranks": ranks,
            "config": dataclasses.asdict(self.config),
        })

# %% right in one dict
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def save_checkpoint(self):
        full = self.config.checkpoint == "full"
        options = StateDictOptions(full_state_dict=full, cpu_offload=full)
        model, optimizer = get_state_dict(self.plain_model, self.optimizer, options=options)
        state = {
            "step": self.step,
            "tokens_seen": self.tokens_seen,
            "model": model,
            "optimizer": optimizer,
            "scaler": self.scaler.state_dict(),
            "loader": self.loader.state_dict(),
            "ranks": self.world.gather(random_states()),
            "config": dataclasses.asdict(self.config),
        }
        return self.write_checkpoint(state)

# %% wrong SAVE-RANK0-SHARD local tensors
  model, optimizer = get_state_dict(self.plain_model, self.optimizer, options=options)
+ model = {name: w.to_local() if isinstance(w, DTensor) else w for name, w in model.items()}

# %% wrong SAVE-RANK0-SHARD rank 0's part in the one file
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def save_checkpoint(self):
        model, optimizer = get_state_dict(self.plain_model, self.optimizer)
        if self.config.checkpoint == "full":
            model = {name: w.to_local() for name, w in model.items()}
            optimizer["state"] = {
                name: {key: t.to_local() if isinstance(t, DTensor) else t for key, t in moments.items()}
                for name, moments in optimizer["state"].items()
            }
        return self.write_checkpoint({
            "step": self.step,
            "tokens_seen": self.tokens_seen,
            "model": model,
            "optimizer": optimizer,
            "scaler": self.scaler.state_dict(),
            "loader": self.loader.state_dict(),
            "ranks": self.world.gather(random_states()),
            "config": dataclasses.asdict(self.config),
        })

# %% wrong RANKS-STUCK rank 0 alone saves
  def save_checkpoint(self):
+     path = Path(self.config.out) / "checkpoints" / f"step_{self.step:08d}"
+     if not self.world.is_first:
+         return path

- state = {
+ return self.write_checkpoint({

- }
- return self.write_checkpoint(state)
+ })

# %% wrong SAVE-GATHERED always full
- full = self.config.checkpoint == "full"
+ full = True

# %% wrong SAVE-GATHERED every tensor whole
- options = StateDictOptions(full_state_dict=full, cpu_offload=full)
+ options = StateDictOptions(full_state_dict=True)

# %% wrong SAVE-FULL-SHARDS the setting ignored
- full = self.config.checkpoint == "full"
- options = StateDictOptions(full_state_dict=full, cpu_offload=full)
- model, optimizer = get_state_dict(self.plain_model, self.optimizer, options=options)
+ model, optimizer = get_state_dict(self.plain_model, self.optimizer)

# %% wrong SAVE-FULL-EVERYWHERE the whole on every rank
- options = StateDictOptions(full_state_dict=full, cpu_offload=full)
+ options = StateDictOptions(full_state_dict=full)

# %% wrong SAVE-UNPUBLISHED DCP into the final folder
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def save_checkpoint(self):
        model, optimizer = get_state_dict(self.plain_model, self.optimizer)
        path = Path(self.config.out) / "checkpoints" / f"step_{self.step:08d}"
        dcp.save({"model": model, "optimizer": optimizer, "step": self.step}, checkpoint_id=path)
        return path

# %% wrong SAVE-UNPUBLISHED a file from every rank
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def save_checkpoint(self):
        options = StateDictOptions(full_state_dict=True)
        model, optimizer = get_state_dict(self.plain_model, self.optimizer, options=options)
        folder = Path(self.config.out) / "checkpoints"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"step_{self.step:08d}_rank{self.world.rank}.pt"
        torch.save({"model": model, "optimizer": optimizer, "step": self.step}, path)
        return path

# %% wrong SAVE-EARLY rank 0 publishes what it sees
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def save_checkpoint(self):
        import json

        model, optimizer = get_state_dict(self.plain_model, self.optimizer)
        folder = Path(self.config.out) / "checkpoints" / f"step_{self.step:08d}"
        folder.mkdir(parents=True, exist_ok=True)
        shard = {name: w.to_local() for name, w in model.items()}
        torch.save({"model": shard, "step": self.step}, folder / f"__{self.world.rank}_0.distcp")
        if self.world.is_first:
            files = manifest.describe(folder, [p.name for p in folder.glob("__*")])
            (folder / "manifest.json").write_text(json.dumps({"files": files}))
        return folder

# %% wrong SAVE-NUMBERS the optimizer's own state dict
- "optimizer": optimizer,
+ "optimizer": self.optimizer.state_dict(),

# %% wrong SAVE-NO-OPTIMIZER weights and step
- "optimizer": optimizer,
- "scaler": self.scaler.state_dict(),
- "loader": self.loader.state_dict(),
- "ranks": self.world.gather(random_states()),

# %% wrong SAVE-NO-MOMENTS the groups alone
- "optimizer": optimizer,
+ "optimizer": {"state": {}, "param_groups": optimizer["param_groups"]},

# %% wrong SAVE-NO-LOADER no place in the data
- "loader": self.loader.state_dict(),

# %% wrong SAVE-NO-RANDOM no random states
- "ranks": self.world.gather(random_states()),

# %% wrong SAVE-RANDOM those of rank 0 alone
- "ranks": self.world.gather(random_states()),
+ "ranks": [random_states()],

# %% wrong SAVE-NAMES names of a compiled model
- "model": model,
+ "model": {"_orig_mod." + name: w for name, w in model.items()},

# %% wrong SAVE-NAMES parameters, a tied head missing
  model, optimizer = get_state_dict(self.plain_model, self.optimizer, options=options)
+ model = {name: model[name] for name, _ in self.plain_model.named_parameters()}

# %% wrong NONE nothing returned
- return self.write_checkpoint(state)
+ self.write_checkpoint(state)

# %% wrong SAVE-NO-SCALER where it scales | of: in one dict
- return self.write_checkpoint(state)
+ if not self.scaler.is_enabled():
+     del state["scaler"]
+ return self.write_checkpoint(state)

# %% wrong SAVE-CONFIG settings that are set | of: in one dict
- "config": dataclasses.asdict(self.config),
+ "config": {k: v for k, v in dataclasses.asdict(self.config).items() if v is not None},

# %% wrong SAVE-NO-GROUPS the moments alone | of: in one dict
- return self.write_checkpoint(state)
+ state["optimizer"] = {"state": optimizer.get("state", {})}
+ return self.write_checkpoint(state)

# %% wrong SAVE-GATHERED every rank's state, pickled | of: in one dict
- return self.write_checkpoint(state)
+ everything = [None] * self.world.world_size
+ shards = {n: w.to_local() if isinstance(w, DTensor) else w for n, w in model.items()}
+ moments = [t.to_local() for m in self.optimizer.state.values() for t in m.values() if isinstance(t, DTensor)]
+ dist.all_gather_object(everything, [shards, moments, random_states()])
+ state["ranks"] = [own[2] for own in everything]
+ return self.write_checkpoint(state)

# %% wrong SAVE-NAMES without the weights that are not trained | of: in one dict
- options = StateDictOptions(full_state_dict=full, cpu_offload=full)
+ options = StateDictOptions(full_state_dict=full, cpu_offload=full, ignore_frozen_params=True)

# %% wrong SAVE-NO-MOMENTS the weights a second time | of: full by hand, moved off the other ranks
- "optimizer": optimizer,
+ "optimizer": model,

# %% wrong SAVE-GATHERED vectors are whole, since they are small | of: in one dict
- return self.write_checkpoint(state)
+ if not full:
+     state["model"] = {n: t.full_tensor() if isinstance(t, DTensor) and t.dim() == 1 else t for n, t in model.items()}
+ return self.write_checkpoint(state)

# %% wrong SAVE-AGAIN nothing where the step has a checkpoint | of: in one dict
  def save_checkpoint(self):
+     there = sorted((Path(self.config.out) / "checkpoints").glob(f"step_{self.step:08d}*"))
+     if any(path.suffix != ".part" for path in there):
+         return there[0]

# %% wrong SAVE-AGAIN each step once, by its number | of: in one dict
  def save_checkpoint(self):
+     written = self.__dict__.setdefault("written", {})
+     if self.step in written:
+         return written[self.step]

- return self.write_checkpoint(state)
+ written[self.step] = self.write_checkpoint(state)
+ return written[self.step]

# %% wrong SAVE-AGAIN the random states of the first save | of: in one dict
- return self.write_checkpoint(state)
+ self.first_ranks = state["ranks"] = getattr(self, "first_ranks", state["ranks"])
+ return self.write_checkpoint(state)

# %% wrong SAVE-AGAIN the optimizer of the first save at a step, in one file | of: in one dict
- return self.write_checkpoint(state)
+ kept = self.__dict__.setdefault("kept", {})
+ if full:
+     state["optimizer"] = kept.setdefault(self.step, optimizer)
+ return self.write_checkpoint(state)

# %% wrong SAVE-GATHERED one rank has all of it anyway | of: in one dict
- full = self.config.checkpoint == "full"
+ full = self.config.checkpoint == "full" or self.world.world_size == 1
