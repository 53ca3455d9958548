# Answers to the exercise mixed-precision-policy.

# %% right nothing for float32
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def _get_mixed_precision_policy(self):
        low = None if self.dtype == torch.float32 else self.dtype
        return MixedPrecisionPolicy(param_dtype=low, reduce_dtype=torch.float32, cast_forward_inputs=False)

# %% right the dtype itself, float32 too
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def _get_mixed_precision_policy(self):
        return MixedPrecisionPolicy(self.dtype, torch.float32, None, False)

# %% right two policies
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def _get_mixed_precision_policy(self):
        if self.dtype == torch.float32:
            return MixedPrecisionPolicy()
        return MixedPrecisionPolicy(
            param_dtype=self.dtype, reduce_dtype=torch.float32, cast_forward_inputs=False
        )

# %% wrong STUB untouched
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def _get_mixed_precision_policy(self):
        raise NotImplementedError("your code here")

# %% wrong NONE no return
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def _get_mixed_precision_policy(self):
        policy = MixedPrecisionPolicy(self.dtype, torch.float32, None, False)

# %% wrong TYPE the class of FSDP1
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def _get_mixed_precision_policy(self):
        from torch.distributed.fsdp import MixedPrecision
        return MixedPrecision(param_dtype=self.dtype, reduce_dtype=torch.float32)

# %% wrong PRECISION-IGNORED nothing is cast
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def _get_mixed_precision_policy(self):
        return MixedPrecisionPolicy(reduce_dtype=torch.float32, cast_forward_inputs=False)

# %% wrong PRECISION-FIXED bfloat16 for both
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def _get_mixed_precision_policy(self):
        low = None if self.dtype == torch.float32 else torch.bfloat16
        return MixedPrecisionPolicy(param_dtype=low, reduce_dtype=torch.float32, cast_forward_inputs=False)

# %% wrong PRECISION-FP32 bfloat16 always
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def _get_mixed_precision_policy(self):
        return MixedPrecisionPolicy(torch.bfloat16, torch.float32, None, False)

# %% wrong PRECISION-REDUCE the low dtype for sums
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def _get_mixed_precision_policy(self):
        return MixedPrecisionPolicy(self.dtype, self.dtype, None, False)

# %% wrong PRECISION-REDUCE left to the default
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def _get_mixed_precision_policy(self):
        return MixedPrecisionPolicy(param_dtype=self.dtype, cast_forward_inputs=False)

# %% wrong PRECISION-INPUTS left to the default
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def _get_mixed_precision_policy(self):
        return MixedPrecisionPolicy(param_dtype=self.dtype, reduce_dtype=torch.float32)

# %% wrong PRECISION-OUTPUT outputs in float32
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def _get_mixed_precision_policy(self):
        return MixedPrecisionPolicy(self.dtype, torch.float32, torch.float32, False)

# %% wrong PRECISION-ASKED the word of the settings
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def _get_mixed_precision_policy(self):
        low = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(self.config.precision)
        return MixedPrecisionPolicy(low, torch.float32, cast_forward_inputs=False)

# %% wrong PRECISION-ASKED a policy for each word, kept by the class
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    found = {}

    def _get_mixed_precision_policy(self):
        low = None if self.dtype == torch.float32 else self.dtype
        policy = MixedPrecisionPolicy(low, torch.float32, cast_forward_inputs=False)
        return self.found.setdefault(self.config.precision, policy)

# %% right by what is not float32, from the trainer's own dtype
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def _get_mixed_precision_policy(self):
        cast = dict(param_dtype=self.dtype) if self.dtype.itemsize < 4 else {}
        return MixedPrecisionPolicy(**cast, reduce_dtype=torch.float32, cast_forward_inputs=False)

# %% wrong PRECISION-BESIDE alone, a process has nobody to gather from
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def _get_mixed_precision_policy(self):
        alone = self.world.world_size < 2
        low = None if alone or self.dtype == torch.float32 else self.dtype
        return MixedPrecisionPolicy(param_dtype=low, reduce_dtype=torch.float32, cast_forward_inputs=False)

# %% wrong PRECISION-BESIDE nothing is cut, so nothing is cast
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def _get_mixed_precision_policy(self):
        low = None if self.dtype == torch.float32 or self.config.sharding == "NO_SHARD" else self.dtype
        return MixedPrecisionPolicy(param_dtype=low, reduce_dtype=torch.float32, cast_forward_inputs=False)

# %% wrong PRECISION-BESIDE float32 sums for few ranks alone
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def _get_mixed_precision_policy(self):
        low = None if self.dtype == torch.float32 else self.dtype
        total = torch.float32 if self.world.world_size <= 4 else low
        return MixedPrecisionPolicy(param_dtype=low, reduce_dtype=total, cast_forward_inputs=False)

# %% wrong PRECISION-BESIDE sums in the dtype of a new tensor
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def _get_mixed_precision_policy(self):
        low = None if self.dtype == torch.float32 else self.dtype
        return MixedPrecisionPolicy(param_dtype=low, reduce_dtype=torch.empty(0).dtype, cast_forward_inputs=False)

# %% wrong PRECISION-BESIDE nothing is cast where torch computes in that dtype by default
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def _get_mixed_precision_policy(self):
        low = None if self.dtype == torch.get_default_dtype() else self.dtype
        return MixedPrecisionPolicy(param_dtype=low, reduce_dtype=torch.float32, cast_forward_inputs=False)
