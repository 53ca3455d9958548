# Answers to the exercise load-checkpoint.

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

# %% wrong LOAD-EMPTY nothing there not thought of
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def load_checkpoint(self, path=None):
        state = self.read_checkpoint(path)
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

# %% wrong LOAD-EMPTY None for nothing
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def load_checkpoint(self, path=None):
        state = self.read_checkpoint(path)
        if state is None:
            return None
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

# %% wrong LOAD-EMPTY an error for nothing
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def load_checkpoint(self, path=None):
        state = self.read_checkpoint(path)
        if state is None:
            raise FileNotFoundError("no checkpoint")
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

# %% wrong LOAD-PATH the newest whatever is asked for
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def load_checkpoint(self, path=None):
        state = self.read_checkpoint()
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

# %% wrong LOAD-PATH the condition the wrong way round
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def load_checkpoint(self, path=None):
        state = self.read_checkpoint(path)
        if path is not None:
            return 0
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

# %% wrong LOAD-NO-MODEL weights not put back
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def load_checkpoint(self, path=None):
        state = self.read_checkpoint(path)
        if state is None:
            return 0
        weights = plain_names(state["model"])
        refuse_other_shapes(weights, self.plain_model.state_dict())
        self.loader.load_state_dict(state["loader"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        self.step = state["step"]
        self.tokens_seen = state["tokens_seen"]
        if len(state["ranks"]) == self.world.world_size:
            restore_random_states(state["ranks"][self.world.rank])
        return self.step

# %% wrong LOAD-NO-MODEL weights put into a copy
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def load_checkpoint(self, path=None):
        state = self.read_checkpoint(path)
        if state is None:
            return 0
        weights = plain_names(state["model"])
        refuse_other_shapes(weights, self.plain_model.state_dict())
        self.loader.load_state_dict(state["loader"])
        self.plain_model.state_dict().update(weights)
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        self.step = state["step"]
        self.tokens_seen = state["tokens_seen"]
        if len(state["ranks"]) == self.world.world_size:
            restore_random_states(state["ranks"][self.world.rank])
        return self.step

# %% wrong LOAD-NO-OPTIMIZER optimizer not put back
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def load_checkpoint(self, path=None):
        state = self.read_checkpoint(path)
        if state is None:
            return 0
        weights = plain_names(state["model"])
        refuse_other_shapes(weights, self.plain_model.state_dict())
        self.loader.load_state_dict(state["loader"])
        self.plain_model.load_state_dict(weights)
        self.scaler.load_state_dict(state["scaler"])
        self.step = state["step"]
        self.tokens_seen = state["tokens_seen"]
        if len(state["ranks"]) == self.world.world_size:
            restore_random_states(state["ranks"][self.world.rank])
        return self.step

# %% wrong LOAD-NO-OPTIMIZER groups alone
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def load_checkpoint(self, path=None):
        state = self.read_checkpoint(path)
        if state is None:
            return 0
        weights = plain_names(state["model"])
        refuse_other_shapes(weights, self.plain_model.state_dict())
        self.loader.load_state_dict(state["loader"])
        self.plain_model.load_state_dict(weights)
        self.optimizer.load_state_dict({"state": {}, "param_groups": state["optimizer"]["param_groups"]})
        self.scaler.load_state_dict(state["scaler"])
        self.step = state["step"]
        self.tokens_seen = state["tokens_seen"]
        if len(state["ranks"]) == self.world.world_size:
            restore_random_states(state["ranks"][self.world.rank])
        return self.step

# %% wrong LOAD-NO-OPTIMIZER a new optimizer afterwards
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
        self.optimizer = self._setup_optimizer()
        self.step = state["step"]
        self.tokens_seen = state["tokens_seen"]
        if len(state["ranks"]) == self.world.world_size:
            restore_random_states(state["ranks"][self.world.rank])
        return self.step

# %% wrong LOAD-NO-STEP step not put back
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
        self.tokens_seen = state["tokens_seen"]
        if len(state["ranks"]) == self.world.world_size:
            restore_random_states(state["ranks"][self.world.rank])
        return state["step"]

# %% wrong LOAD-NO-STEP a local variable
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
        step = state["step"]
        self.tokens_seen = state["tokens_seen"]
        if len(state["ranks"]) == self.world.world_size:
            restore_random_states(state["ranks"][self.world.rank])
        return step

# %% wrong LOAD-NO-STEP one step further
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
        self.step = state["step"] + 1
        self.tokens_seen = state["tokens_seen"]
        if len(state["ranks"]) == self.world.world_size:
            restore_random_states(state["ranks"][self.world.rank])
        return self.step

# %% wrong LOAD-NO-TOKENS count of tokens not put back
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
        if len(state["ranks"]) == self.world.world_size:
            restore_random_states(state["ranks"][self.world.rank])
        return self.step

# %% wrong LOAD-NO-LOADER loader not put back
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def load_checkpoint(self, path=None):
        state = self.read_checkpoint(path)
        if state is None:
            return 0
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

# %% wrong LOAD-NO-LOADER loader at the step
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def load_checkpoint(self, path=None):
        state = self.read_checkpoint(path)
        if state is None:
            return 0
        weights = plain_names(state["model"])
        refuse_other_shapes(weights, self.plain_model.state_dict())
        self.loader.load_state_dict(state["loader"] | {"next_window": state["step"]})
        self.plain_model.load_state_dict(weights)
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        self.step = state["step"]
        self.tokens_seen = state["tokens_seen"]
        if len(state["ranks"]) == self.world.world_size:
            restore_random_states(state["ranks"][self.world.rank])
        return self.step

# %% wrong LOAD-NO-SCALER scaler not put back
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
        self.step = state["step"]
        self.tokens_seen = state["tokens_seen"]
        if len(state["ranks"]) == self.world.world_size:
            restore_random_states(state["ranks"][self.world.rank])
        return self.step

# %% wrong LOAD-NO-RANDOM random states not put back
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
        return self.step

# %% wrong LOAD-NO-RANDOM torch's alone
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
            torch.set_rng_state(state["ranks"][self.world.rank]["torch"])
        return self.step

# %% wrong LOAD-NO-RANDOM seeded anew after the restore
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
        torch.manual_seed(self.config.seed)
        return self.step

# %% wrong LOAD-RETURN the count of tokens
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
        return self.tokens_seen

# %% wrong LOAD-RETURN True
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
        return True

# %% wrong NONE no return
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

# %% wrong LOAD-WRAPPED names as they are
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def load_checkpoint(self, path=None):
        state = self.read_checkpoint(path)
        if state is None:
            return 0
        weights = state["model"]
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

# %% wrong LOAD-WRAPPED module. alone
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def load_checkpoint(self, path=None):
        state = self.read_checkpoint(path)
        if state is None:
            return 0
        weights = {n.removeprefix("module."): w for n, w in state["model"].items()}
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

# %% wrong LOAD-WRAPPED module. before _orig_mod. alone
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def load_checkpoint(self, path=None):
        state = self.read_checkpoint(path)
        if state is None:
            return 0
        weights = {n.removeprefix("module.").removeprefix("_orig_mod."): w for n, w in state["model"].items()}
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

# %% wrong LOAD-WRAPPED names that do not fit passed over
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def load_checkpoint(self, path=None):
        state = self.read_checkpoint(path)
        if state is None:
            return 0
        weights = state["model"]
        self.loader.load_state_dict(state["loader"])
        self.plain_model.load_state_dict(weights, strict=False)
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        self.step = state["step"]
        self.tokens_seen = state["tokens_seen"]
        if len(state["ranks"]) == self.world.world_size:
            restore_random_states(state["ranks"][self.world.rank])
        return self.step

# %% wrong LOAD-ACCEPTS missing matrices passed over
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def load_checkpoint(self, path=None):
        state = self.read_checkpoint(path)
        if state is None:
            return 0
        weights = plain_names(state["model"])
        own = self.plain_model.state_dict()
        for n, w in weights.items():
            if w.shape != own[n].shape:
                raise ValueError(n)
        self.loader.load_state_dict(state["loader"])
        self.plain_model.load_state_dict(weights, strict=False)
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        self.step = state["step"]
        self.tokens_seen = state["tokens_seen"]
        if len(state["ranks"]) == self.world.world_size:
            restore_random_states(state["ranks"][self.world.rank])
        return self.step

# %% wrong LOAD-ACCEPTS only what fits
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def load_checkpoint(self, path=None):
        state = self.read_checkpoint(path)
        if state is None:
            return 0
        weights = plain_names(state["model"])
        own = self.plain_model.state_dict()
        weights = own | {n: w for n, w in weights.items() if w.shape == own[n].shape}
        self.loader.load_state_dict(state["loader"])
        self.plain_model.load_state_dict(weights)
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        self.step = state["step"]
        self.tokens_seen = state["tokens_seen"]
        if len(state["ranks"]) == self.world.world_size:
            restore_random_states(state["ranks"][self.world.rank])
        return self.step

# %% wrong LOAD-HALF no look at the shapes first
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def load_checkpoint(self, path=None):
        state = self.read_checkpoint(path)
        if state is None:
            return 0
        weights = plain_names(state["model"])
        self.loader.load_state_dict(state["loader"])
        self.plain_model.load_state_dict(weights)
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        self.step = state["step"]
        self.tokens_seen = state["tokens_seen"]
        if len(state["ranks"]) == self.world.world_size:
            restore_random_states(state["ranks"][self.world.rank])
        return self.step

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
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def load_checkpoint(self, path=None):
        state = self.read_checkpoint(path)
        if state is None:
            return 0
        weights = plain_names(state["model"])
        refuse_other_shapes(weights, self.plain_model.state_dict())
        self.plain_model.load_state_dict(weights)
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        self.loader.load_state_dict(state["loader"])
        self.step = state["step"]
        self.tokens_seen = state["tokens_seen"]
        if len(state["ranks"]) == self.world.world_size:
            restore_random_states(state["ranks"][self.world.rank])
        return self.step

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
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def load_checkpoint(self, path=None):
        state = self.read_checkpoint(path)
        if state is None:
            return 0
        weights = plain_names(state["model"])
        own = self.plain_model.state_dict()
        assert {n: w.shape for n, w in own.items()} == {n: w.shape for n, w in weights.items()}
        self.loader.load_state_dict(state["loader"])
        self.plain_model.load_state_dict(weights)
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        self.step = state["step"]
        self.tokens_seen = state["tokens_seen"]
        if len(state["ranks"]) == self.world.world_size:
            restore_random_states(state["ranks"][self.world.rank])
        return self.step

# %% wrong LOAD-RANKS the first rank's states whoever saved
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
        restore_random_states(state["ranks"][self.world.rank])
        return self.step

# %% wrong LOAD-FIRST-LOSS the head's own draw
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
        if self.optimizer.state:
            torch.nn.init.normal_(self.plain_model.norm.weight, 1.0, 0.02)
        return self.step

# %% wrong LOAD-ERROR an object in place of its state
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def load_checkpoint(self, path=None):
        state = self.read_checkpoint(path)
        if state is None:
            return 0
        weights = plain_names(state["model"])
        refuse_other_shapes(weights, self.plain_model.state_dict())
        self.loader.load_state_dict(state["loader"])
        self.plain_model.load_state_dict(weights)
        self.optimizer.load_state_dict(state["optimizer"]["state"])
        self.scaler.load_state_dict(state["scaler"])
        self.step = state["step"]
        self.tokens_seen = state["tokens_seen"]
        if len(state["ranks"]) == self.world.world_size:
            restore_random_states(state["ranks"][self.world.rank])
        return self.step
