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
