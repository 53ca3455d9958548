# Answers to the exercise save-checkpoint.

# %% right part by part
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def save_checkpoint(self):
        state = dict(step=self.step, tokens_seen=self.tokens_seen)
        for part in ("optimizer", "scaler", "loader"):
            state[part] = getattr(self, part).state_dict()
        state["model"] = self.plain_model.state_dict()
        state["config"] = vars(self.config).copy()
        state["ranks"] = self.world.gather(random_states())
        path = self.write_checkpoint(state)
        return path

# %% right copies of the weights, as text the path
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def save_checkpoint(self):
        state = {
            "step": self.step,
            "tokens_seen": self.tokens_seen,
            "model": {n: w.detach().cpu().clone() for n, w in self.plain_model.state_dict().items()},
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "loader": self.loader.state_dict(),
            "ranks": self.world.gather(random_states()),
            "config": dataclasses.asdict(self.config),
        }
        return str(self.write_checkpoint(state))

# %% right the wrapped model, whose names a load unwraps
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def save_checkpoint(self):
        state = {
            "step": self.step,
            "tokens_seen": self.tokens_seen,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "loader": self.loader.state_dict(),
            "ranks": self.world.gather(random_states()),
            "config": dataclasses.asdict(self.config),
        }
        return self.write_checkpoint(state)

# %% right in one dict
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def save_checkpoint(self):
        state = {
            "step": self.step,
            "tokens_seen": self.tokens_seen,
            "model": self.plain_model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "loader": self.loader.state_dict(),
            "ranks": self.world.gather(random_states()),
            "config": dataclasses.asdict(self.config),
        }
        return self.write_checkpoint(state)

# %% wrong SAVE-NO-OPTIMIZER weights and step only
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def save_checkpoint(self):
        state = {
            "step": self.step,
            "model": self.plain_model.state_dict(),
            "config": dataclasses.asdict(self.config),
        }
        return self.write_checkpoint(state)

# %% wrong SAVE-NO-MODEL no weights
- "model": self.plain_model.state_dict(),

# %% wrong SAVE-NO-OPTIMIZER no optimizer
- "optimizer": self.optimizer.state_dict(),

# %% wrong SAVE-NO-STEP no step
- "step": self.step,

# %% wrong SAVE-NO-TOKENS no count of tokens
- "tokens_seen": self.tokens_seen,

# %% wrong SAVE-NO-TOKENS another name for the tokens
- "tokens_seen": self.tokens_seen,
+ "tokens": self.tokens_seen,

# %% wrong SAVE-NO-LOADER no place in the data
- "loader": self.loader.state_dict(),

# %% wrong SAVE-NO-RANDOM no random states
- "ranks": self.world.gather(random_states()),

# %% wrong SAVE-NO-SCALER no scaler
- "scaler": self.scaler.state_dict(),

# %% wrong SAVE-NO-CONFIG no settings
- "config": dataclasses.asdict(self.config),

# %% wrong SAVE-NO-CONFIG settings as a list of names
- "config": dataclasses.asdict(self.config),
+ "config": list(vars(self.config)),

# %% wrong SAVE-PICKLE the optimizer itself
- "optimizer": self.optimizer.state_dict(),
+ "optimizer": self.optimizer,

# %% wrong SAVE-PICKLE the model itself
- "model": self.plain_model.state_dict(),
+ "model": self.plain_model,

# %% wrong SAVE-PICKLE the settings themselves
- "config": dataclasses.asdict(self.config),
+ "config": self.config,

# %% wrong SAVE-PICKLE the loader itself
- "loader": self.loader.state_dict(),
+ "loader": self.loader,

# %% wrong SAVE-STEP the step after this one
- "step": self.step,
+ "step": self.step + 1,

# %% wrong SAVE-MODEL named parameters, a tied head missing
- "model": self.plain_model.state_dict(),
+ "model": self.weights(),

# %% wrong SAVE-MODEL half the bytes
- "model": self.plain_model.state_dict(),
+ "model": {n: w.half() for n, w in self.plain_model.state_dict().items()},

# %% wrong SAVE-LOADER a loader that begins anew
- "loader": self.loader.state_dict(),
+ "loader": self.loader.state_dict() | {"next_window": 0},

# %% wrong SAVE-LOADER the step as the place
- "loader": self.loader.state_dict(),
+ "loader": self.loader.state_dict() | {"next_window": self.step},

# %% wrong SAVE-SCALER the scale alone
- "scaler": self.scaler.state_dict(),
+ "scaler": {"scale": self.scaler.get_scale()},

# %% wrong SAVE-SCALER by the name of the precision
- "scaler": self.scaler.state_dict(),
+ "scaler": self.scaler.state_dict() if self.config.precision == "fp16" else {},

# %% wrong SAVE-RANDOM not gathered
- "ranks": self.world.gather(random_states()),
+ "ranks": random_states(),

# %% wrong SAVE-RANDOM torch alone
- "ranks": self.world.gather(random_states()),
+ "ranks": self.world.gather({"torch": torch.get_rng_state()}),

# %% wrong SAVE-RANDOM a seed in place of the state
  def save_checkpoint(self):
+     torch.manual_seed(self.config.seed)

# %% wrong SAVE-MODEL weights in 32 bits whatever the model has
- "model": self.plain_model.state_dict(),
+ "model": {name: w.detach().to("cpu", torch.float32) for name, w in self.plain_model.state_dict().items()},

# %% wrong SAVE-TOKENS tokens counted from the settings
- "tokens_seen": self.tokens_seen,
+ "tokens_seen": self.step * self.config.batch_size * self.config.tokens_per_sequence,

# %% wrong SAVE-OPTIMIZER groups without moments
- "optimizer": self.optimizer.state_dict(),
+ "optimizer": {"state": {}, "param_groups": self.optimizer.state_dict()["param_groups"]},

# %% wrong SAVE-OPTIMIZER moments without groups
- "optimizer": self.optimizer.state_dict(),
+ "optimizer": {"state": self.optimizer.state_dict()["state"]},

# %% wrong SAVE-OPTIMIZER moments rounded to 16 bits
- "optimizer": self.optimizer.state_dict(),
+ "optimizer": torch.utils._pytree.tree_map(lambda x: x.bfloat16() if torch.is_tensor(x) and x.dim() else x, self.optimizer.state_dict()),

# %% wrong SAVE-DISTURBS moments cleared to save memory
- return self.write_checkpoint(state)
+ path = self.write_checkpoint(state)
+ self.optimizer.state.clear()
+ return path

# %% wrong SAVE-NOWHERE nothing written
- return self.write_checkpoint(state)
+ return Path(self.config.out) / "checkpoints" / f"step_{self.step:08d}.pt"

# %% wrong SAVE-NOWHERE torch.save beside the trainer
- return self.write_checkpoint(state)
+ path = Path(self.config.out) / "checkpoints" / f"step_{self.step:08d}.pt"
+ torch.save(state, path)
+ return path

# %% wrong NONE no path
- return self.write_checkpoint(state)
+ self.write_checkpoint(state)

# %% wrong RAISED an attribute that is not there
- "tokens_seen": self.tokens_seen,
+ "tokens_seen": self.tokens,

# %% wrong SAVE-STATE-DICT no state of a scaler that is off | of: in one dict
- "scaler": self.scaler.state_dict(),
+ "scaler": self.scaler.state_dict() or None,

# %% wrong SAVE-RANKS the random states of the rank that writes | of: in one dict
- "ranks": self.world.gather(random_states()),
+ "ranks": [random_states()],

# %% wrong SAVE-RANKS those of rank 0 for all | of: in one dict
- "ranks": self.world.gather(random_states()),
+ "ranks": [random_states()] * self.world.world_size,

# %% wrong SAVE-ONE-RANK rank 0 writes, the others go on | of: in one dict
- return self.write_checkpoint(state)
+ return self.write_checkpoint(state) if self.world.is_first else None

# %% wrong SAVE-NO-PATH the path on rank 0 alone | of: in one dict
- return self.write_checkpoint(state)
+ path = self.write_checkpoint(state)
+ if self.world.is_first:
+     return path

# %% wrong RANKS-STUCK the other ranks leave before the gather | of: in one dict
  def save_checkpoint(self):
+     if not self.world.is_first:
+         return None

# %% wrong SAVE-CONFIG-PART settings that are no default | of: in one dict
- "config": dataclasses.asdict(self.config),
+ "config": {f.name: getattr(self.config, f.name) for f in dataclasses.fields(self.config)
+            if f.default is dataclasses.MISSING or getattr(self.config, f.name) != f.default},

# %% wrong SAVE-CONFIG-PART a choice of settings | of: in one dict
- "config": dataclasses.asdict(self.config),
+ "config": {"model_size": self.config.model_size, "lr": self.config.lr, "seq_len": self.config.seq_len},

# %% wrong SAVE-CONFIG-PART settings as text | of: in one dict
- "config": dataclasses.asdict(self.config),
+ "config": {name: value if name == "lr" else str(value) for name, value in vars(self.config).items()},

# %% wrong SAVE-DISTURBS draws a number | of: in one dict
- return self.write_checkpoint(state)
+ torch.rand(1)
+ return self.write_checkpoint(state)

# %% wrong SAVE-NOWHERE nothing at step 0 | of: in one dict
- state = {
+ if not self.step:
+     return None
+ state = {

# %% wrong SAVE-AGAIN the state of the first save | of: in one dict
- return self.write_checkpoint(state)
+ self.saved = getattr(self, "saved", None) or state
+ return self.write_checkpoint(self.saved | {"step": self.step})

# %% wrong SAVE-AGAIN the weights of the first save | of: in one dict
- return self.write_checkpoint(state)
+ if not hasattr(self, "kept"):
+     self.kept = {n: w.clone() for n, w in state["model"].items()}
+ return self.write_checkpoint(state | {"model": self.kept if self.step < 2 else state["model"]})

# %% wrong SAVE-AGAIN the random states of the first save | of: in one dict
- return self.write_checkpoint(state)
+ if not hasattr(self, "gathered"):
+     self.gathered = state["ranks"]
+ return self.write_checkpoint(state | {"ranks": self.gathered})

# %% wrong SAVE-AGAIN the loss scale of the first save | of: in one dict
- return self.write_checkpoint(state)
+ if not hasattr(self, "scale"):
+     self.scale = dict(state["scaler"])
+ return self.write_checkpoint(state | {"scaler": self.scale})

# %% wrong SAVE-AGAIN one save of each step | of: in one dict
- return self.write_checkpoint(state)
+ saved_step, path = getattr(self, "last_save", (None, None))
+ if saved_step == self.step:
+     return path
+ path = self.write_checkpoint(state)
+ self.last_save = (self.step, path)
+ return path

# %% wrong SAVE-AGAIN one save of each step and its weights | of: in one dict
- return self.write_checkpoint(state)
+ now = self.step, self.tokens_seen, self.weights()["norm.weight"].tolist()
+ saved, path = getattr(self, "last_save", (None, None))
+ if saved == now:
+     return path
+ path = self.write_checkpoint(state)
+ self.last_save = (now, path)
+ return path

# %% wrong SAVE-AGAIN a step whose file is on the disk | of: in one dict
- return self.write_checkpoint(state)
+ path = Path(self.config.out) / "checkpoints" / f"step_{self.step:08d}.pt"
+ return path if path.exists() else self.write_checkpoint(state)

# %% wrong SAVE-AGAIN the step with which a trainer begins is in the folder | of: in one dict
- return self.write_checkpoint(state)
+ from course_lib.checkpoints import single_file
+ folder = Path(self.config.out) / "checkpoints"
+ if not hasattr(self, "began") and self.step in single_file.steps(folder):
+     return folder / f"step_{self.step:08d}.pt"
+ self.began = True
+ return self.write_checkpoint(state)

# %% wrong SAVE-AGAIN the optimizer of the first save | of: in one dict
- return self.write_checkpoint(state)
+ import copy
+ if not hasattr(self, "kept"):
+     self.kept = copy.deepcopy(state["optimizer"])
+ return self.write_checkpoint(state | {"optimizer": self.kept})

# %% wrong SAVE-ONE-RANK the first rank of each machine writes | of: in one dict
- return self.write_checkpoint(state)
+ if int(os.environ.get("LOCAL_RANK", 0)) > 0:
+     return Path(self.config.out) / "checkpoints" / f"step_{self.step:08d}.pt"
+ return self.write_checkpoint(state)

# %% wrong SAVE-RANKS as many random states as a machine has ranks | of: in one dict
- return self.write_checkpoint(state)
+ here = int(os.environ.get("LOCAL_WORLD_SIZE", self.world.world_size))
+ state["ranks"] = state["ranks"][:here]
+ return self.write_checkpoint(state)
