# Answers to the exercise sharding-strategy.

# %% right a table
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def _get_sharding_strategy(self):
        R = self.world.world_size
        S = self.config.ranks_per_copy(R)
        flat, square = ((R,), ("shard",)), ((R // S, S), ("replicate", "shard"))
        (shape, names), reshard = {
            "FULL_SHARD": (flat, True), "SHARD_GRAD_OP": (flat, False),
            "HYBRID_SHARD": (square, True), "NO_SHARD": (square, False),
        }[self.config.sharding]
        return init_device_mesh(self.device.type, shape, mesh_dim_names=names), reshard

# %% right questions one after the other
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def _get_sharding_strategy(self):
        name, R, kind = self.config.sharding, self.world.world_size, self.device.type
        if name in ("FULL_SHARD", "SHARD_GRAD_OP"):
            mesh = init_device_mesh(kind, (R,), mesh_dim_names=("shard",))
            return mesh, name == "FULL_SHARD"
        if name in ("HYBRID_SHARD", "NO_SHARD"):
            S = self.config.ranks_per_copy(R)
            mesh = init_device_mesh(kind, (R // S, S), mesh_dim_names=("replicate", "shard"))
            return mesh, name == "HYBRID_SHARD"
        raise ValueError(f"unknown strategy {name!r}")

# %% right ranks written out
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def _get_sharding_strategy(self):
        ranks = torch.arange(dist.get_world_size())
        match self.config.sharding:
            case "FULL_SHARD" | "SHARD_GRAD_OP" as name:
                mesh = DeviceMesh(self.device.type, ranks, mesh_dim_names=("shard",))
                return mesh, name == "FULL_SHARD"
            case "NO_SHARD":
                grid = ranks.view(-1, 1)
            case "HYBRID_SHARD":
                grid = ranks.view(-1, self.config.ranks_per_copy(len(ranks)))
            case other:
                raise KeyError(other)
        mesh = DeviceMesh(self.world.device.type, grid, mesh_dim_names=("replicate", "shard"))
        return mesh, self.config.sharding == "HYBRID_SHARD"

# %% wrong STUB untouched
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def _get_sharding_strategy(self):
        raise NotImplementedError("your code here")

# %% wrong NONE no return
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def _get_sharding_strategy(self):
        mesh = init_device_mesh("cpu", (self.world.world_size,), mesh_dim_names=("shard",))

# %% wrong TYPE the mesh alone
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def _get_sharding_strategy(self):
        return init_device_mesh("cpu", (self.world.world_size,), mesh_dim_names=("shard",))

# %% wrong TYPE the strategy of FSDP1
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def _get_sharding_strategy(self):
        from torch.distributed.fsdp import ShardingStrategy
        return ShardingStrategy[self.config.sharding]

# %% wrong STRATEGY-SWAPPED stage 3 and stage 2 exchanged
class FSDPTrainer(FSDPTrainer):
    def _get_sharding_strategy(self):
        mesh, reshard = super()._get_sharding_strategy()
        return mesh, self.config.sharding in ("SHARD_GRAD_OP", "HYBRID_SHARD")

# %% wrong STRATEGY-RESHARD hybrid keeps
class FSDPTrainer(FSDPTrainer):
    def _get_sharding_strategy(self):
        mesh, reshard = super()._get_sharding_strategy()
        return mesh, self.config.sharding == "FULL_SHARD"

# %% wrong STRATEGY-NO-SHARD one axis of all ranks
class FSDPTrainer(FSDPTrainer):
    def _get_sharding_strategy(self):
        mesh, reshard = super()._get_sharding_strategy()
        if self.config.sharding == "NO_SHARD":
            mesh = init_device_mesh("cpu", (self.world.world_size,), mesh_dim_names=("shard",))
        return mesh, reshard

# %% wrong STRATEGY-MESH hybrid on one axis
class FSDPTrainer(FSDPTrainer):
    def _get_sharding_strategy(self):
        mesh, reshard = super()._get_sharding_strategy()
        if self.config.sharding == "HYBRID_SHARD":
            mesh = init_device_mesh("cpu", (self.world.world_size,), mesh_dim_names=("shard",))
        return mesh, reshard

# %% wrong STRATEGY-AXES parts before copies
class FSDPTrainer(FSDPTrainer):
    def _get_sharding_strategy(self):
        mesh, reshard = super()._get_sharding_strategy()
        if self.config.sharding == "HYBRID_SHARD":
            R = self.world.world_size
            S = self.config.ranks_per_copy(R)
            mesh = init_device_mesh("cpu", (S, R // S), mesh_dim_names=("shard", "replicate"))
        return mesh, reshard

# %% wrong STRATEGY-AXES names right, numbers exchanged
class FSDPTrainer(FSDPTrainer):
    def _get_sharding_strategy(self):
        mesh, reshard = super()._get_sharding_strategy()
        if self.config.sharding in ("HYBRID_SHARD", "NO_SHARD"):
            mesh = init_device_mesh("cpu", mesh.shape[::-1], mesh_dim_names=("replicate", "shard"))
        return mesh, reshard

# %% wrong STRATEGY-SIZE all ranks share every copy
class FSDPTrainer(FSDPTrainer):
    def _get_sharding_strategy(self):
        mesh, reshard = super()._get_sharding_strategy()
        if self.config.sharding == "HYBRID_SHARD":
            mesh = init_device_mesh("cpu", (1, self.world.world_size), mesh_dim_names=("replicate", "shard"))
        return mesh, reshard

# %% wrong STRATEGY-SIZE the machine is not asked
class FSDPTrainer(FSDPTrainer):
    def _get_sharding_strategy(self):
        mesh, reshard = super()._get_sharding_strategy()
        if self.config.sharding == "HYBRID_SHARD":
            R = self.world.world_size
            S = self.config.shard_size or R
            mesh = init_device_mesh("cpu", (R // S, S), mesh_dim_names=("replicate", "shard"))
        return mesh, reshard

# %% wrong STRATEGY-NAMES axes without names
class FSDPTrainer(FSDPTrainer):
    def _get_sharding_strategy(self):
        mesh, reshard = super()._get_sharding_strategy()
        return init_device_mesh("cpu", tuple(mesh.shape)), reshard

# %% wrong STRATEGY-UNKNOWN a default
class FSDPTrainer(FSDPTrainer):
    def _get_sharding_strategy(self):
        if self.config.sharding in ("SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD"):
            return super()._get_sharding_strategy()
        mesh = init_device_mesh(self.device.type, (self.world.world_size,), mesh_dim_names=("shard",))
        return mesh, True

# %% wrong STRATEGY-UNKNOWN small letters too | of: questions one after the other
- name, R, kind = self.config.sharding, self.world.world_size, self.device.type
+ name, R, kind = self.config.sharding.upper().strip(), self.world.world_size, self.device.type

# %% wrong STRATEGY-UNKNOWN HYBRID will do
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def _get_sharding_strategy(self):
        name, R, kind = self.config.sharding, self.world.world_size, self.device.type
        if name in ("FULL_SHARD", "SHARD_GRAD_OP"):
            return init_device_mesh(kind, (R,), mesh_dim_names=("shard",)), name == "FULL_SHARD"
        if "HYBRID" in name or name == "NO_SHARD":
            S = self.config.ranks_per_copy(R)
            mesh = init_device_mesh(kind, (R // S, S), mesh_dim_names=("replicate", "shard"))
            return mesh, name != "NO_SHARD"
        raise ValueError(f"unknown strategy {name!r}")

# %% wrong STRATEGY-ERROR not implemented | of: questions one after the other
- raise ValueError(f"unknown strategy {name!r}")
+ raise NotImplementedError(name)

# %% wrong STRATEGY-ERROR an assertion | of: questions one after the other
- raise ValueError(f"unknown strategy {name!r}")
+ assert False, name

# %% wrong STRATEGY-NO-SHARD one rank needs no axes | of: questions one after the other
- if name in ("FULL_SHARD", "SHARD_GRAD_OP"):
+ if name in ("FULL_SHARD", "SHARD_GRAD_OP") or R == 1:
      mesh = init_device_mesh(kind, (R,), mesh_dim_names=("shard",))
-     return mesh, name == "FULL_SHARD"
+     return mesh, name in ("FULL_SHARD", "HYBRID_SHARD")

# %% wrong STRATEGY-DEVICE the CPU, always | of: questions one after the other
- name, R, kind = self.config.sharding, self.world.world_size, self.device.type
+ name, R, kind = self.config.sharding, self.world.world_size, "cpu"

# %% wrong STRATEGY-DEVICE what the machine has | of: questions one after the other
- name, R, kind = self.config.sharding, self.world.world_size, self.device.type
+ name, R = self.config.sharding, self.world.world_size
+ kind = "cuda" if torch.cuda.is_available() else "cpu"

# %% wrong STRATEGY-DEVICE what was asked for, which may be auto | of: questions one after the other
- name, R, kind = self.config.sharding, self.world.world_size, self.device.type
+ name, R, kind = self.config.sharding, self.world.world_size, self.config.device

# %% wrong STRATEGY-SIZE the machine before what was said | of: questions one after the other
- S = self.config.ranks_per_copy(R)
+ S = 1
+ if name == "HYBRID_SHARD":
+     S = int(__import__("os").environ.get("LOCAL_WORLD_SIZE") or self.config.shard_size or R)

# %% wrong STRATEGY-UNEVEN copies that do not come out even | of: questions one after the other
- S = self.config.ranks_per_copy(R)
+ S = 1
+ if name == "HYBRID_SHARD":
+     S = self.config.shard_size or int(__import__("os").environ.get("LOCAL_WORLD_SIZE", R))

# %% wrong STRATEGY-NO-SHARD a machine shares a copy | of: questions one after the other
- S = self.config.ranks_per_copy(R)
+ S = self.config.ranks_per_copy(R)
+ if name == "NO_SHARD":
+     S = int(__import__("os").environ.get("LOCAL_WORLD_SIZE", 1))

# %% wrong STRATEGY-DEVICE the device as a text | of: questions one after the other
- name, R, kind = self.config.sharding, self.world.world_size, self.device.type
+ name, R, kind = self.config.sharding, self.world.world_size, f"{self.device}"

# %% wrong STRATEGY-DEVICE the device as a text, without the number of the first | of: questions one after the other
- name, R, kind = self.config.sharding, self.world.world_size, self.device.type
+ name, R, kind = self.config.sharding, self.world.world_size, str(self.device).replace(":0", "")

# %% wrong STRATEGY-DEVICE the device as a text, its last two letters cut off | of: questions one after the other
- name, R, kind = self.config.sharding, self.world.world_size, self.device.type
+ name, R, kind = self.config.sharding, self.world.world_size, str(self.device)
+ kind = kind if self.device.index is None else kind[:-2]

# %% wrong STRATEGY-SENDS rank 0 says which strategy it is | of: questions one after the other
- name, R, kind = self.config.sharding, self.world.world_size, self.device.type
+ R, kind = self.world.world_size, self.device.type
+ name = self.world.broadcast(self.config.sharding)

# %% wrong STRATEGY-SENDS counts the ranks that hold a copy | of: questions one after the other
+ R = int(self.world.sum_numbers([1])[0])
  if name in ("HYBRID_SHARD", "NO_SHARD"):
