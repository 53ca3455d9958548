# Answers to the exercise save-checkpoint.

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
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def save_checkpoint(self):
        state = {
            "step": self.step,
            "tokens_seen": self.tokens_seen,
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "loader": self.loader.state_dict(),
            "ranks": self.world.gather(random_states()),
            "config": dataclasses.asdict(self.config),
        }
        return self.write_checkpoint(state)

# %% wrong SAVE-NO-OPTIMIZER no optimizer
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def save_checkpoint(self):
        state = {
            "step": self.step,
            "tokens_seen": self.tokens_seen,
            "model": self.plain_model.state_dict(),
            "scaler": self.scaler.state_dict(),
            "loader": self.loader.state_dict(),
            "ranks": self.world.gather(random_states()),
            "config": dataclasses.asdict(self.config),
        }
        return self.write_checkpoint(state)

# %% wrong SAVE-NO-STEP no step
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def save_checkpoint(self):
        state = {
            "tokens_seen": self.tokens_seen,
            "model": self.plain_model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "loader": self.loader.state_dict(),
            "ranks": self.world.gather(random_states()),
            "config": dataclasses.asdict(self.config),
        }
        return self.write_checkpoint(state)

# %% wrong SAVE-NO-TOKENS no count of tokens
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def save_checkpoint(self):
        state = {
            "step": self.step,
            "model": self.plain_model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "loader": self.loader.state_dict(),
            "ranks": self.world.gather(random_states()),
            "config": dataclasses.asdict(self.config),
        }
        return self.write_checkpoint(state)

# %% wrong SAVE-NO-TOKENS another name for the tokens
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def save_checkpoint(self):
        state = {
            "step": self.step,
            "tokens": self.tokens_seen,
            "model": self.plain_model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "loader": self.loader.state_dict(),
            "ranks": self.world.gather(random_states()),
            "config": dataclasses.asdict(self.config),
        }
        return self.write_checkpoint(state)

# %% wrong SAVE-NO-LOADER no place in the data
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def save_checkpoint(self):
        state = {
            "step": self.step,
            "tokens_seen": self.tokens_seen,
            "model": self.plain_model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "ranks": self.world.gather(random_states()),
            "config": dataclasses.asdict(self.config),
        }
        return self.write_checkpoint(state)

# %% wrong SAVE-NO-RANDOM no random states
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def save_checkpoint(self):
        state = {
            "step": self.step,
            "tokens_seen": self.tokens_seen,
            "model": self.plain_model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "loader": self.loader.state_dict(),
            "config": dataclasses.asdict(self.config),
        }
        return self.write_checkpoint(state)

# %% wrong SAVE-NO-SCALER no scaler
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def save_checkpoint(self):
        state = {
            "step": self.step,
            "tokens_seen": self.tokens_seen,
            "model": self.plain_model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "loader": self.loader.state_dict(),
            "ranks": self.world.gather(random_states()),
            "config": dataclasses.asdict(self.config),
        }
        return self.write_checkpoint(state)

# %% wrong SAVE-NO-CONFIG no settings
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
        }
        return self.write_checkpoint(state)

# %% wrong SAVE-NO-CONFIG settings as a list of names
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
            "config": list(vars(self.config)),
        }
        return self.write_checkpoint(state)

# %% wrong SAVE-PICKLE the optimizer itself
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def save_checkpoint(self):
        state = {
            "step": self.step,
            "tokens_seen": self.tokens_seen,
            "model": self.plain_model.state_dict(),
            "optimizer": self.optimizer,
            "scaler": self.scaler.state_dict(),
            "loader": self.loader.state_dict(),
            "ranks": self.world.gather(random_states()),
            "config": dataclasses.asdict(self.config),
        }
        return self.write_checkpoint(state)

# %% wrong SAVE-PICKLE the model itself
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def save_checkpoint(self):
        state = {
            "step": self.step,
            "tokens_seen": self.tokens_seen,
            "model": self.plain_model,
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "loader": self.loader.state_dict(),
            "ranks": self.world.gather(random_states()),
            "config": dataclasses.asdict(self.config),
        }
        return self.write_checkpoint(state)

# %% wrong SAVE-PICKLE the settings themselves
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
            "config": self.config,
        }
        return self.write_checkpoint(state)

# %% wrong SAVE-PICKLE the loader itself
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def save_checkpoint(self):
        state = {
            "step": self.step,
            "tokens_seen": self.tokens_seen,
            "model": self.plain_model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "loader": self.loader,
            "ranks": self.world.gather(random_states()),
            "config": dataclasses.asdict(self.config),
        }
        return self.write_checkpoint(state)

# %% wrong SAVE-STEP the step after this one
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def save_checkpoint(self):
        state = {
            "step": self.step + 1,
            "tokens_seen": self.tokens_seen,
            "model": self.plain_model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "loader": self.loader.state_dict(),
            "ranks": self.world.gather(random_states()),
            "config": dataclasses.asdict(self.config),
        }
        return self.write_checkpoint(state)

# %% wrong SAVE-MODEL named parameters, a tied head missing
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def save_checkpoint(self):
        state = {
            "step": self.step,
            "tokens_seen": self.tokens_seen,
            "model": self.weights(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "loader": self.loader.state_dict(),
            "ranks": self.world.gather(random_states()),
            "config": dataclasses.asdict(self.config),
        }
        return self.write_checkpoint(state)

# %% wrong SAVE-MODEL half the bytes
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def save_checkpoint(self):
        state = {
            "step": self.step,
            "tokens_seen": self.tokens_seen,
            "model": {n: w.half() for n, w in self.plain_model.state_dict().items()},
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "loader": self.loader.state_dict(),
            "ranks": self.world.gather(random_states()),
            "config": dataclasses.asdict(self.config),
        }
        return self.write_checkpoint(state)

# %% wrong SAVE-LOADER a loader that begins anew
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def save_checkpoint(self):
        state = {
            "step": self.step,
            "tokens_seen": self.tokens_seen,
            "model": self.plain_model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "loader": self.loader.state_dict() | {"next_window": 0},
            "ranks": self.world.gather(random_states()),
            "config": dataclasses.asdict(self.config),
        }
        return self.write_checkpoint(state)

# %% wrong SAVE-LOADER the step as the place
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def save_checkpoint(self):
        state = {
            "step": self.step,
            "tokens_seen": self.tokens_seen,
            "model": self.plain_model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "loader": self.loader.state_dict() | {"next_window": self.step},
            "ranks": self.world.gather(random_states()),
            "config": dataclasses.asdict(self.config),
        }
        return self.write_checkpoint(state)

# %% wrong SAVE-SCALER the scale alone
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def save_checkpoint(self):
        state = {
            "step": self.step,
            "tokens_seen": self.tokens_seen,
            "model": self.plain_model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": {"scale": self.scaler.get_scale()},
            "loader": self.loader.state_dict(),
            "ranks": self.world.gather(random_states()),
            "config": dataclasses.asdict(self.config),
        }
        return self.write_checkpoint(state)

# %% wrong SAVE-RANDOM not gathered
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def save_checkpoint(self):
        state = {
            "step": self.step,
            "tokens_seen": self.tokens_seen,
            "model": self.plain_model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "loader": self.loader.state_dict(),
            "ranks": random_states(),
            "config": dataclasses.asdict(self.config),
        }
        return self.write_checkpoint(state)

# %% wrong SAVE-RANDOM torch alone
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def save_checkpoint(self):
        state = {
            "step": self.step,
            "tokens_seen": self.tokens_seen,
            "model": self.plain_model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "loader": self.loader.state_dict(),
            "ranks": self.world.gather({"torch": torch.get_rng_state()}),
            "config": dataclasses.asdict(self.config),
        }
        return self.write_checkpoint(state)

# %% wrong SAVE-RANDOM a seed in place of the state
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def save_checkpoint(self):
        torch.manual_seed(self.config.seed)
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

# %% wrong SAVE-TOKENS tokens counted from the settings
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def save_checkpoint(self):
        state = {
            "step": self.step,
            "tokens_seen": self.step * self.config.batch_size * self.config.tokens_per_sequence,
            "model": self.plain_model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "loader": self.loader.state_dict(),
            "ranks": self.world.gather(random_states()),
            "config": dataclasses.asdict(self.config),
        }
        return self.write_checkpoint(state)

# %% wrong SAVE-OPTIMIZER groups without moments
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def save_checkpoint(self):
        state = {
            "step": self.step,
            "tokens_seen": self.tokens_seen,
            "model": self.plain_model.state_dict(),
            "optimizer": {"state": {}, "param_groups": self.optimizer.state_dict()["param_groups"]},
            "scaler": self.scaler.state_dict(),
            "loader": self.loader.state_dict(),
            "ranks": self.world.gather(random_states()),
            "config": dataclasses.asdict(self.config),
        }
        return self.write_checkpoint(state)

# %% wrong SAVE-OPTIMIZER moments without groups
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def save_checkpoint(self):
        state = {
            "step": self.step,
            "tokens_seen": self.tokens_seen,
            "model": self.plain_model.state_dict(),
            "optimizer": {"state": self.optimizer.state_dict()["state"]},
            "scaler": self.scaler.state_dict(),
            "loader": self.loader.state_dict(),
            "ranks": self.world.gather(random_states()),
            "config": dataclasses.asdict(self.config),
        }
        return self.write_checkpoint(state)

# %% wrong SAVE-OPTIMIZER moments rounded to 16 bits
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def save_checkpoint(self):
        state = {
            "step": self.step,
            "tokens_seen": self.tokens_seen,
            "model": self.plain_model.state_dict(),
            "optimizer": torch.utils._pytree.tree_map(lambda x: x.bfloat16() if torch.is_tensor(x) and x.dim() else x, self.optimizer.state_dict()),
            "scaler": self.scaler.state_dict(),
            "loader": self.loader.state_dict(),
            "ranks": self.world.gather(random_states()),
            "config": dataclasses.asdict(self.config),
        }
        return self.write_checkpoint(state)

# %% wrong SAVE-DISTURBS moments cleared to save memory
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
        path = self.write_checkpoint(state)
        self.optimizer.state.clear()
        return path

# %% wrong SAVE-NOWHERE nothing written
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
        return Path(self.config.out) / "checkpoints" / f"step_{self.step:08d}.pt"

# %% wrong SAVE-NOWHERE torch.save beside the trainer
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
        path = Path(self.config.out) / "checkpoints" / f"step_{self.step:08d}.pt"
        torch.save(state, path)
        return path

# %% wrong NONE no path
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
        self.write_checkpoint(state)

# %% wrong RAISED an attribute that is not there
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def save_checkpoint(self):
        state = {
            "step": self.step,
            "tokens_seen": self.tokens,
            "model": self.plain_model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "loader": self.loader.state_dict(),
            "ranks": self.world.gather(random_states()),
            "config": dataclasses.asdict(self.config),
        }
        return self.write_checkpoint(state)
