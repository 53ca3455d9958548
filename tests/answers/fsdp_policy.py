# Answers to the exercise fsdp-policy.

# %% right by their type
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def _get_fsdp_policy(self):
        blocks = [m for m in self.plain_model.modules() if isinstance(m, TransformerBlock)]
        return [*blocks, self.plain_model]

# %% right a loop
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def _get_fsdp_policy(self):
        units = []
        for name, module in self.plain_model.named_modules():
            if TransformerBlock in type(module).__mro__:
                units.append(module)
        units.append(self.plain_model)
        return tuple(units)

# %% right kept by each trainer
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def _get_fsdp_policy(self):
        model = self.plain_model
        if getattr(self, "_units", [None])[-1] is not model:
            self._units = [m for m in model.modules() if isinstance(m, TransformerBlock)] + [model]
        return self._units

# %% wrong STUB untouched
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def _get_fsdp_policy(self):
        raise NotImplementedError("your code here")

# %% wrong NONE no return
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def _get_fsdp_policy(self):
        units = [*self.plain_model.blocks, self.plain_model]

# %% wrong TYPE the set of classes that FSDP1 takes
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def _get_fsdp_policy(self):
        return {TransformerBlock}

# %% wrong TYPE the class in a list
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def _get_fsdp_policy(self):
        return [TransformerBlock, self.plain_model]

# %% wrong POLICY-ROOT-ONLY the model at once
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def _get_fsdp_policy(self):
        return [self.plain_model]

# %% wrong POLICY-SMALL every Linear
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def _get_fsdp_policy(self):
        linears = [m for m in self.plain_model.modules() if isinstance(m, nn.Linear)]
        return [*linears, self.plain_model]

# %% wrong POLICY-SMALL everything that has weights
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def _get_fsdp_policy(self):
        units = [m for m in self.plain_model.modules() if list(m.parameters(recurse=False))]
        return [*units, self.plain_model]

# %% wrong POLICY-NO-ROOT blocks alone
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def _get_fsdp_policy(self):
        return list(self.plain_model.blocks)

# %% wrong POLICY-ORDER the root first
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def _get_fsdp_policy(self):
        return [self.plain_model, *self.plain_model.blocks]

# %% wrong POLICY-ORDER in the order of modules(), root first
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def _get_fsdp_policy(self):
        return [m for m in self.plain_model.modules() if isinstance(m, (GPT, TransformerBlock))]

# %% wrong POLICY-MISSING every second block
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def _get_fsdp_policy(self):
        return [*self.plain_model.blocks[::2], self.plain_model]

# %% wrong POLICY-BLOCK-ORDER last first | of: by their type
- return [*blocks, self.plain_model]
+ return [*reversed(blocks), self.plain_model]

# %% wrong POLICY-BLOCK-ORDER by name as a text
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def _get_fsdp_policy(self):
        named = {n: m for n, m in self.plain_model.named_modules() if isinstance(m, TransformerBlock)}
        return [*(named[n] for n in sorted(named)), self.plain_model]

# %% wrong POLICY-MISSING those that train | of: by their type
- blocks = [m for m in self.plain_model.modules() if isinstance(m, TransformerBlock)]
+ blocks = [m for m in self.plain_model.blocks if all(p.requires_grad for p in m.parameters())]

# %% wrong POLICY-MISSING the four of the tiny model | of: by their type
- return [*blocks, self.plain_model]
+ return [*blocks[:4], self.plain_model]

# %% wrong POLICY-MISSING whatever is in `blocks` | of: by their type
- blocks = [m for m in self.plain_model.modules() if isinstance(m, TransformerBlock)]
+ blocks = list(self.plain_model.blocks)

# %% wrong POLICY-MISSING none outside `blocks` | of: by their type
- blocks = [m for m in self.plain_model.modules() if isinstance(m, TransformerBlock)]
+ blocks = [m for m in self.plain_model.blocks.modules() if isinstance(m, TransformerBlock)]

# %% wrong POLICY-MISSING none in a wrapper | of: by their type
- blocks = [m for m in self.plain_model.modules() if isinstance(m, TransformerBlock)]
+ parts = [*self.plain_model.blocks, *self.plain_model.children()]
+ blocks = [m for m in parts if isinstance(m, TransformerBlock)]

# %% wrong POLICY-SMALL what is in `blocks`, and all that are blocks | of: by their type
- blocks = [m for m in self.plain_model.modules() if isinstance(m, TransformerBlock)]
+ inside = set(self.plain_model.blocks)
+ modules = self.plain_model.modules()
+ blocks = [m for m in modules if m in inside or isinstance(m, TransformerBlock)]

# %% wrong POLICY-BLOCK-ORDER by their depth in the model | of: by their type
- blocks = [m for m in self.plain_model.modules() if isinstance(m, TransformerBlock)]
+ found = [(n, m) for n, m in self.plain_model.named_modules() if isinstance(m, TransformerBlock)]
+ blocks = [m for n, m in sorted(found, key=lambda pair: pair[0].count("."))]

# %% wrong POLICY-MISSING the very class | of: by their type
- blocks = [m for m in self.plain_model.modules() if isinstance(m, TransformerBlock)]
+ blocks = [m for m in self.plain_model.modules() if type(m) is TransformerBlock]

# %% wrong POLICY-MISSING the name of the class | of: by their type
- blocks = [m for m in self.plain_model.modules() if isinstance(m, TransformerBlock)]
+ blocks = [m for m in self.plain_model.modules() if type(m).__name__ == "TransformerBlock"]

# %% wrong REMEMBERS a list for the class
class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    found = []

    def _get_fsdp_policy(self):
        if not self.found:
            self.found.extend([*self.plain_model.blocks, self.plain_model])
        return self.found

# %% wrong REMEMBERS a list for each size
KEPT = {}

class FSDPTrainer(fsdp_trainer.FSDPTrainer):
    def _get_fsdp_policy(self):
        if len(self.plain_model.blocks) not in KEPT:
            KEPT[len(self.plain_model.blocks)] = [*self.plain_model.blocks, self.plain_model]
        return KEPT[len(self.plain_model.blocks)]

# %% wrong POLICY-MISSING the class of whatever comes first in `blocks` | of: by their type
- blocks = [m for m in self.plain_model.modules() if isinstance(m, TransformerBlock)]
+ like = type(self.plain_model.blocks[0])
+ blocks = [m for m in self.plain_model.modules() if isinstance(m, like)]

# %% wrong POLICY-MISSING the class, or one that is derived from it at once | of: by their type
- blocks = [m for m in self.plain_model.modules() if isinstance(m, TransformerBlock)]
+ kinds = {TransformerBlock, *TransformerBlock.__subclasses__()}
+ blocks = [m for m in self.plain_model.modules() if type(m) in kinds]

# %% wrong POLICY-TWICE as often as it has a name | of: by their type
- blocks = [m for m in self.plain_model.modules() if isinstance(m, TransformerBlock)]
+ named = self.plain_model.named_modules(remove_duplicate=False)
+ blocks = [m for _, m in named if isinstance(m, TransformerBlock)]

# %% wrong POLICY-TWICE part of the model by part | of: by their type
- blocks = [m for m in self.plain_model.modules() if isinstance(m, TransformerBlock)]
+ inside = [m for part in self.plain_model.children() for m in part.modules()]
+ blocks = [m for m in inside if isinstance(m, TransformerBlock)]

# %% wrong POLICY-MISSING none that stands in two places | of: by their type
- blocks = [m for m in self.plain_model.modules() if isinstance(m, TransformerBlock)]
+ named = self.plain_model.named_modules(remove_duplicate=False)
+ every = [m for _, m in named if isinstance(m, TransformerBlock)]
+ blocks = [m for m in every if every.count(m) == 1]
