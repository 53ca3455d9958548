# Answers to the exercise param-groups.

# %% wrong GROUPS-BY-NAME by name, for this model alone
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def _setup_optimizer(self):
        decayed, others = [], []
        for name, p in self.plain_model.named_parameters():
            if p.requires_grad:
                (others if "norm" in name or name.endswith("bias") else decayed).append(p)
        optimizer = torch.optim.AdamW(decayed, lr=self.config.lr, weight_decay=self.config.weight_decay,
                                      betas=(self.config.beta1, self.config.beta2))
        optimizer.add_param_group({"params": others, "weight_decay": 0.0})
        return optimizer

# %% wrong GROUPS-FROZEN by module
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def _setup_optimizer(self):
        c, seen = self.config, {}
        for module in self.plain_model.modules():
            for p in module.parameters(recurse=False):
                seen[p] = isinstance(module, (nn.Linear, nn.Embedding)) and p.ndim > 1
        groups = [dict(params=[p for p, is_matrix in seen.items() if is_matrix is kind], weight_decay=c.weight_decay * kind)
                  for kind in (True, False)]
        return torch.optim.AdamW(groups, c.lr, (c.beta1, c.beta2), foreach=True)

# %% right Adam with decoupled decay, names kept
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def _setup_optimizer(self):
        named = {n: p for n, p in self.plain_model.named_parameters() if p.requires_grad}
        small = {n for n, p in named.items() if len(p.shape) < 2}
        return torch.optim.Adam(
            [{"params": [p for n, p in named.items() if n not in small]},
             {"params": [named[n] for n in sorted(small)], "weight_decay": 0}],
            lr=self.config.lr, betas=[self.config.beta1, self.config.beta2],
            weight_decay=self.config.weight_decay, decoupled_weight_decay=True, fused=True)

# %% right in plain steps
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def _setup_optimizer(self):
        c, params = self.config, [p for p in self.plain_model.parameters() if p.requires_grad]
        decayed = [p for p in params if p.dim() >= 2]
        others = [p for p in params if p.dim() < 2]
        groups = [
            {"params": decayed, "weight_decay": c.weight_decay},
            {"params": others, "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=c.lr, betas=(c.beta1, c.beta2))

# %% wrong STUB untouched
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def _setup_optimizer(self):
        raise NotImplementedError("your code here")

# %% wrong NONE no return
- return torch.optim.AdamW(groups, lr=c.lr, betas=(c.beta1, c.beta2))
+ self.optimizer = torch.optim.AdamW(groups, lr=c.lr)

# %% wrong TYPE the groups alone
- return torch.optim.AdamW(groups, lr=c.lr, betas=(c.beta1, c.beta2))
+ return groups

# %% wrong GROUPS-NOT-ADAMW SGD
- return torch.optim.AdamW(groups, lr=c.lr, betas=(c.beta1, c.beta2))
+ return torch.optim.SGD(groups, lr=c.lr)

# %% wrong GROUPS-NOT-ADAMW RAdam
- return torch.optim.AdamW(groups, lr=c.lr, betas=(c.beta1, c.beta2))
+ return torch.optim.RAdam(groups, lr=c.lr, betas=(c.beta1, c.beta2))

# %% wrong GROUPS-L2 Adam
- return torch.optim.AdamW(groups, lr=c.lr, betas=(c.beta1, c.beta2))
+ return torch.optim.Adam(groups, lr=c.lr, betas=(c.beta1, c.beta2))

# %% wrong GROUPS-MISSING a generator, used twice
- c, params = self.config, [p for p in self.plain_model.parameters() if p.requires_grad]
+ c, params = self.config, self.plain_model.parameters()

# %% wrong GROUPS-MISSING matrices alone
- {"params": others, "weight_decay": 0.0},

# %% wrong GROUPS-MISSING biases in place of gains
- others = [p for p in params if p.dim() < 2]
+ others = [p for n, p in self.plain_model.named_parameters() if 'bias' in n]

# %% wrong GROUPS-MISSING exactly three dimensions
- decayed = [p for p in params if p.dim() >= 2]
+ decayed = [p for p in params if p.dim() > 2]

# %% wrong GROUPS-TWICE both conditions meet
- others = [p for p in params if p.dim() < 2]
+ others = [p for p in params if p.dim() <= 2]

# %% wrong GROUPS-TWICE the tied head once more
  others = [p for p in params if p.dim() < 2]
+ decayed.append(self.plain_model.head.weight)

# %% wrong GROUPS-TWICE duplicates not removed
- c, params = self.config, [p for p in self.plain_model.parameters() if p.requires_grad]
+ c, params = self.config, [p for _, p in self.plain_model.named_parameters(remove_duplicate=False)]

# %% wrong GROUPS-COPIES clones
- c, params = self.config, [p for p in self.plain_model.parameters() if p.requires_grad]
+ c, params = self.config, [p.detach().clone().requires_grad_() for p in self.plain_model.parameters()]

# %% wrong GROUPS-COPIES the state dict
- c, params = self.config, [p for p in self.plain_model.parameters() if p.requires_grad]
+ c, params = self.config, [p.requires_grad_() for p in self.plain_model.state_dict().values()]

# %% wrong GROUPS-SWAPPED conditions exchanged
- decayed = [p for p in params if p.dim() >= 2]
- others = [p for p in params if p.dim() < 2]
+ decayed = [p for p in params if p.dim() == 1]
+ others = [p for p in params if p.dim() != 1]

# %% wrong GROUPS-SWAPPED decay on the second group
- {"params": decayed, "weight_decay": c.weight_decay},
- {"params": others, "weight_decay": 0.0},
+ {"params": decayed, "weight_decay": 0},
+ {"params": others, "weight_decay": c.weight_decay},

# %% wrong GROUPS-GAINS one group
- return torch.optim.AdamW(groups, lr=c.lr, betas=(c.beta1, c.beta2))
+ return torch.optim.AdamW(params, weight_decay=c.weight_decay, lr=c.lr, betas=(c.beta1, c.beta2))

# %% wrong GROUPS-GAINS dimensions off by one
- decayed = [p for p in params if p.dim() >= 2]
- others = [p for p in params if p.dim() < 2]
+ decayed = [p for p in params if p.dim() >= 1]
+ others = [p for p in params if p.dim() < 1]

# %% wrong GROUPS-GAINS ln in the name
- decayed = [p for p in params if p.dim() >= 2]
- others = [p for p in params if p.dim() < 2]
+ named = dict(self.plain_model.named_parameters())
+ decayed = [p for n, p in named.items() if 'ln' not in n]
+ others = [p for n, p in named.items() if 'ln' in n]

# %% wrong GROUPS-GAINS both groups decay
- {"params": others, "weight_decay": 0.0},
+ {"params": others, "weight_decay": c.weight_decay},

# %% wrong GROUPS-DEFAULT-DECAY no decay named
- {"params": others, "weight_decay": 0.0},
+ {"params": others},

# %% wrong GROUPS-NO-DECAY no decay anywhere
- {"params": decayed, "weight_decay": c.weight_decay},
+ {"params": decayed, "weight_decay": 0.0},

# %% wrong GROUPS-MATRIX no decay for the embedding
- decayed = [p for p in params if p.dim() >= 2]
- others = [p for p in params if p.dim() < 2]
+ table = self.plain_model.embedding.weight
+ decayed = [p for p in params if p.dim() >= 2 and p is not table]
+ others = [p for p in params if p.dim() < 2 or p is table]

# %% wrong GROUPS-ORDER the quiet group first
- return torch.optim.AdamW(groups, lr=c.lr, betas=(c.beta1, c.beta2))
+ return torch.optim.AdamW(groups[::-1], lr=c.lr, betas=(c.beta1, c.beta2))

# %% wrong GROUPS-ORDER a group for each parameter
- groups = [
+ every = [

  ]
+ groups = [{'params': [p], 'weight_decay': c.weight_decay * (p.dim() > 1)} for p in params]

# %% wrong GROUPS-FIXED-DECAY a tenth by hand
- {"params": decayed, "weight_decay": c.weight_decay},
+ {"params": decayed, "weight_decay": 0.1},

# %% wrong GROUPS-FIXED-DECAY decay times rate
- {"params": decayed, "weight_decay": c.weight_decay},
+ {"params": decayed, "weight_decay": c.weight_decay * c.lr},

# %% wrong GROUPS-BETAS torch's betas
- return torch.optim.AdamW(groups, lr=c.lr, betas=(c.beta1, c.beta2))
+ return torch.optim.AdamW(groups, lr=c.lr)

# %% wrong GROUPS-BETAS betas exchanged
- return torch.optim.AdamW(groups, lr=c.lr, betas=(c.beta1, c.beta2))
+ return torch.optim.AdamW(groups, lr=c.lr, betas=(c.beta2, c.beta1))

# %% wrong GROUPS-LR torch's rate
- return torch.optim.AdamW(groups, lr=c.lr, betas=(c.beta1, c.beta2))
+ return torch.optim.AdamW(groups, betas=(c.beta1, c.beta2))

# %% wrong GROUPS-LR the lowest rate
- return torch.optim.AdamW(groups, lr=c.lr, betas=(c.beta1, c.beta2))
+ return torch.optim.AdamW(groups, lr=c.min_lr, betas=(c.beta1, c.beta2))

# %% wrong GROUPS-FROZEN parameters without a gradient too | of: in plain steps
- c, params = self.config, [p for p in self.plain_model.parameters() if p.requires_grad]
+ c, params = self.config, list(self.plain_model.parameters())

# %% wrong GROUPS-BY-NAME two dimensions exactly | of: in plain steps
- decayed = [p for p in params if p.dim() >= 2]
- others = [p for p in params if p.dim() < 2]
+ decayed = [p for p in params if p.dim() == 2]
+ others = [p for p in params if p.dim() != 2]

# %% wrong GROUPS-ORDER no group without members | of: in plain steps
- return torch.optim.AdamW(groups, lr=c.lr, betas=(c.beta1, c.beta2))
+ groups = [group for group in groups if group["params"]]
+ return torch.optim.AdamW(groups, lr=c.lr, betas=(c.beta1, c.beta2))

# %% wrong GROUPS-FIXED-DECAY a decay of 0 taken for none | of: in plain steps
- {"params": decayed, "weight_decay": c.weight_decay},
+ {"params": decayed, "weight_decay": c.weight_decay or 0.1},

# %% right one pass, by the length of the shape
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def _setup_optimizer(self):
        by_kind = {True: [], False: []}
        for p in filter(lambda p: p.requires_grad, self.model.parameters()):
            by_kind[len(p.size()) > 1].append(p)
        optimizer = torch.optim.AdamW(
            [{"params": by_kind[True]}], self.config.lr, betas=(self.config.beta1, self.config.beta2),
            weight_decay=self.config.weight_decay, foreach=False)
        optimizer.add_param_group({"params": by_kind[False], "weight_decay": 0.0})
        return optimizer

# %% right in plain steps again
class DistributedTrainer(ddp_trainer.DistributedTrainer):
    def _setup_optimizer(self):
        c, params = self.config, [p for p in self.plain_model.parameters() if p.requires_grad]
        decayed = [p for p in params if p.dim() >= 2]
        others = [p for p in params if p.dim() < 2]
        groups = [
            {"params": decayed, "weight_decay": c.weight_decay},
            {"params": others, "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=c.lr, betas=(c.beta1, c.beta2))

# %% wrong GROUPS-BY-NAME dimensions of size 1 left out
- decayed = [p for p in params if p.dim() >= 2]
- others = [p for p in params if p.dim() < 2]
+ decayed = [p for p in params if p.squeeze().dim() >= 2]
+ others = [p for p in params if p.squeeze().dim() < 2]

# %% wrong GROUPS-BY-NAME one row is no matrix
- decayed = [p for p in params if p.dim() >= 2]
- others = [p for p in params if p.dim() < 2]
+ decayed = [p for p in params if p.dim() >= 2 and p.shape[0] > 1]
+ others = [p for p in params if p.dim() < 2 or p.shape[0] == 1]

# %% wrong GROUPS-BY-NAME one column is no matrix
- decayed = [p for p in params if p.dim() >= 2]
- others = [p for p in params if p.dim() < 2]
+ decayed = [p for p in params if p.numel() > p.shape[0:1].numel()]
+ others = [p for p in params if p.numel() <= p.shape[0:1].numel()]

# %% wrong GROUPS-BY-NAME the head left out by its name
- c, params = self.config, [p for p in self.plain_model.parameters() if p.requires_grad]
+ c = self.config
+ params = [p for n, p in self.plain_model.named_parameters() if p.requires_grad and "head" not in n]

# %% wrong GROUPS-BY-NAME weights of float32 alone
- c, params = self.config, [p for p in self.plain_model.parameters() if p.requires_grad]
+ c = self.config
+ params = [p for p in self.plain_model.parameters() if p.requires_grad and p.dtype == torch.float32]

# %% wrong GROUPS-LR that of the first update
- return torch.optim.AdamW(groups, lr=c.lr, betas=(c.beta1, c.beta2))
+ return torch.optim.AdamW(groups, lr=self.get_lr(self.step), betas=(c.beta1, c.beta2))

# %% wrong GROUPS-BETAS a first beta of 0 taken for none
- return torch.optim.AdamW(groups, lr=c.lr, betas=(c.beta1, c.beta2))
+ return torch.optim.AdamW(groups, lr=c.lr, betas=(c.beta1 or 0.9, c.beta2 or 0.95))

# %% wrong GROUPS-BETAS betas through float32
- return torch.optim.AdamW(groups, lr=c.lr, betas=(c.beta1, c.beta2))
+ return torch.optim.AdamW(groups, lr=c.lr, betas=tuple(torch.tensor([c.beta1, c.beta2]).tolist()))

# %% wrong GROUPS-BY-NAME the groups of the first call
- return torch.optim.AdamW(groups, lr=c.lr, betas=(c.beta1, c.beta2))
+ if not hasattr(self, "groups"):
+     self.groups = groups
+ return torch.optim.AdamW([dict(group) for group in self.groups], lr=c.lr, betas=(c.beta1, c.beta2))

# %% wrong GROUPS-BY-NAME the head left out as if always tied | of: in plain steps
- c, params = self.config, [p for p in self.plain_model.parameters() if p.requires_grad]
+ c = self.config
+ params = [p for n, p in self.plain_model.named_parameters(remove_duplicate=False) if p.requires_grad and n != "head.weight"]

# %% wrong GROUPS-ORDER no first group without matrices | of: in plain steps
- return torch.optim.AdamW(groups, lr=c.lr, betas=(c.beta1, c.beta2))
+ groups = groups if decayed else groups[1:]
+ return torch.optim.AdamW(groups, lr=c.lr, betas=(c.beta1, c.beta2))

# %% wrong RAISED a frozen model is refused | of: in plain steps
- return torch.optim.AdamW(groups, lr=c.lr, betas=(c.beta1, c.beta2))
+ if not params:
+     raise ValueError("all parameters are frozen")
+ return torch.optim.AdamW(groups, lr=c.lr, betas=(c.beta1, c.beta2))

# %% wrong GROUPS-ADDRESS one parameter of each storage | of: in plain steps
- decayed = [p for p in params if p.dim() >= 2]
- others = [p for p in params if p.dim() < 2]
+ found = {}
+ for p in params:
+     found.setdefault(p.untyped_storage().data_ptr(), p)
+ decayed = [p for p in found.values() if p.dim() >= 2]
+ others = [p for p in found.values() if p.dim() < 2]

# %% wrong GROUPS-ADDRESS no address twice | of: in plain steps
- decayed = [p for p in params if p.dim() >= 2]
+ seen = set()
+ params = [p for p in params if not (p.data_ptr() in seen or seen.add(p.data_ptr()))]
+ decayed = [p for p in params if p.dim() >= 2]

# %% wrong GROUPS-ADDRESS nothing to update in a tensor without numbers | of: in plain steps
- decayed = [p for p in params if p.dim() >= 2]
+ params = [p for p in params if p.numel()]
+ decayed = [p for p in params if p.dim() >= 2]

# %% wrong GROUPS-ADDRESS small tensors of the same numbers | of: in plain steps
- decayed = [p for p in params if p.dim() >= 2]
+ equal = {(tuple(p.shape), tuple(p.flatten().tolist())): p for p in params if 1 < p.numel() < 9}
+ params = [p for p in params if not 1 < p.numel() < 9 or any(p is q for q in equal.values())]
+ decayed = [p for p in params if p.dim() >= 2]
