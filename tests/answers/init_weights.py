# Answers to the exercise init-weights.

# %% right by kind
class GPT(gpt.GPT):
    def _init_weights(self, module):
        match module:
            case nn.Embedding():
                module.weight.data.normal_(0.0, 0.02)
            case nn.Linear():
                depth = 2 * self.config.num_layers if getattr(module, "writes_residual", False) else 1
                module.weight.data.normal_(0.0, 0.02 * depth**-0.5)
                if module.bias is not None:
                    module.bias.data.zero_()

# %% right with randn and no_grad
class GPT(gpt.GPT):
    @torch.no_grad()
    def _init_weights(self, module):
        if isinstance(module, nn.Linear | nn.Embedding):
            scale = (2 * len(self.blocks)) ** 0.5 if getattr(module, "writes_residual", False) else 1
            module.weight.copy_(torch.randn_like(module.weight) * 0.02 / scale)
            if getattr(module, "bias", None) is not None:
                module.bias.zero_()

# %% wrong INIT-NOT-NORMAL truncated at three standard deviations
class GPT(gpt.GPT):
    def _init_weights(self, module):
        std = 0.02 / math.sqrt(2 * self.config.num_layers) if getattr(module, "writes_residual", False) else 0.02
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.trunc_normal_(module.weight, std=std, a=-3 * std, b=3 * std)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.constant_(module.bias, 0)

# %% right in plain steps
class GPT(gpt.GPT):
    def _init_weights(self, module):
        std = 0.02
        if getattr(module, "writes_residual", False):
            std /= math.sqrt(2 * self.config.num_layers)
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=std)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

# %% wrong STUB untouched
class GPT(gpt.GPT):
    def _init_weights(self, module):
        raise NotImplementedError("your code here")

# %% wrong INIT-DEFAULT does nothing
class GPT(gpt.GPT):
    def _init_weights(self, module):
        std = 0.02

# %% wrong INIT-DEFAULT embeddings only
class GPT(gpt.GPT):
    def _init_weights(self, module):
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)

# %% wrong INIT-STD-1 no std
class GPT(gpt.GPT):
    def _init_weights(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight)

# %% wrong INIT-VARIANCE the root of 0.02
- std = 0.02
+ std = math.sqrt(0.02)

# %% wrong INIT-XAVIER xavier
class GPT(gpt.GPT):
    def _init_weights(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.xavier_normal_(module.weight)

# %% wrong INIT-XAVIER kaiming
class GPT(gpt.GPT):
    def _init_weights(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.kaiming_normal_(module.weight)

# %% wrong INIT-SCALED-ALL scales every Linear
class GPT(gpt.GPT):
    def _init_weights(self, module):
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.02 / math.sqrt(2 * self.config.num_layers))
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)

# %% wrong INIT-UNIFORM uniform
class GPT(gpt.GPT):
    def _init_weights(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.uniform_(module.weight, -0.02, 0.02)

# %% wrong INIT-UNIFORM uniform of the right std
- nn.init.normal_(module.weight, std=std)
+ nn.init.uniform_(module.weight, -std * 3**0.5, std * 3**0.5)

# %% wrong INIT-CONSTANT a constant
class GPT(gpt.GPT):
    def _init_weights(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.constant_(module.weight, 0.02)

# %% wrong INIT-MEAN mean 0.02
- nn.init.normal_(module.weight, std=std)
+ nn.init.normal_(module.weight, 0.02, std)

# %% wrong INIT-EMBEDDING embedding forgotten
- if isinstance(module, (nn.Linear, nn.Embedding)):
+ if isinstance(module, nn.Linear):

# %% wrong INIT-HEAD zero head
      nn.init.normal_(module.weight, std=std)
+ if module is self.head:
+     nn.init.zeros_(module.weight)

# %% wrong INIT-NO-RESIDUAL no residual scale
class GPT(gpt.GPT):
    def _init_weights(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, mean=0.0, std=0.02)

# %% wrong INIT-ROOT-L one branch per layer
- std /= math.sqrt(2 * self.config.num_layers)
+ std /= math.sqrt(self.config.num_layers)

# %% wrong INIT-NO-ROOT without the root
- std /= math.sqrt(2 * self.config.num_layers)
+ std /= 2 * self.config.num_layers

# %% wrong INIT-UPSCALED multiplied
- std /= math.sqrt(2 * self.config.num_layers)
+ std *= math.sqrt(2 * self.config.num_layers)

# %% wrong INIT-FIXED-DEPTH twelve layers written in
- std /= math.sqrt(2 * self.config.num_layers)
+ std /= math.sqrt(2 * 12)

# %% wrong INIT-ZERO-RESIDUAL zero residual projections
class GPT(gpt.GPT):
    def _init_weights(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if getattr(module, "writes_residual", False):
            nn.init.zeros_(module.weight)

# %% wrong INIT-ONE-BRANCH square matrices only
- if getattr(module, "writes_residual", False):
+ if getattr(module, "writes_residual", False) and module.weight.shape[0] == module.weight.shape[1]:

# %% wrong INIT-GAINS draws the gains too
- if isinstance(module, (nn.Linear, nn.Embedding)):
+ if hasattr(module, "weight"):

# %% wrong INIT-SAME one seed for all
  def _init_weights(self, module):
+     torch.manual_seed(0)

# %% wrong INIT-UNTIED new tensors
class GPT(gpt.GPT):
    def _init_weights(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            module.weight = nn.Parameter(0.02 * torch.randn(module.weight.shape))

# %% wrong INIT-UNSEEDED another source of chance
- nn.init.normal_(module.weight, std=std)
+ source = torch.Generator()
+ source.seed()
+ module.weight.data.normal_(0, std, generator=source)

# %% wrong RAISED every module has a weight
class GPT(gpt.GPT):
    def _init_weights(self, module):
        nn.init.normal_(module.weight, std=0.02)

# %% wrong INIT-BIAS biases stay as torch drew them | of: in plain steps
- if isinstance(module, nn.Linear) and module.bias is not None:
-     nn.init.zeros_(module.bias)

# %% wrong INIT-BIAS biases drawn too | of: in plain steps
- nn.init.zeros_(module.bias)
+ nn.init.normal_(module.bias, std=std)

# %% right normal numbers by Box and Muller, written into slices
class GPT(gpt.GPT):
    def _init_weights(self, module):
        if not isinstance(module, (nn.Embedding, nn.Linear)):
            return
        std = 0.02 * (2 * self.config.num_layers) ** -0.5 if getattr(module, "writes_residual", False) else 0.02
        with torch.no_grad():
            u, v = torch.rand(2, *module.weight.shape)
            module.weight[:] = std * torch.sqrt(-2 * torch.log1p(-u)) * torch.cos(2 * math.pi * v)
            for name, value in module.named_parameters(recurse=False):
                if name == "bias":
                    value.fill_(0)

# %% right in float64, copied into data
class GPT(gpt.GPT):
    def _init_weights(self, module):
        if issubclass(type(module), nn.Linear) or issubclass(type(module), nn.Embedding):
            std = 0.02 / (math.sqrt(2 * self.config.num_layers) if getattr(module, "writes_residual", None) else 1)
            module.weight.data.copy_(torch.randn(module.weight.shape, dtype=torch.float64) * std)
        if getattr(module, "bias", None) is not None:
            module.bias.data.mul_(0)

# %% wrong INIT-SUBCLASS the exact type | of: in plain steps
- if isinstance(module, (nn.Linear, nn.Embedding)):
+ if type(module) in (nn.Linear, nn.Embedding):

# %% wrong INIT-SUBCLASS the name of the type | of: in plain steps
- if isinstance(module, (nn.Linear, nn.Embedding)):
+ if type(module).__name__ in ("Linear", "Embedding"):

# %% wrong INIT-SUBCLASS the exact type of the embedding | of: in plain steps
- if isinstance(module, (nn.Linear, nn.Embedding)):
+ if isinstance(module, nn.Linear) or type(module) is nn.Embedding:

# %% wrong INIT-BIAS biases of the exact type | of: in plain steps
- if isinstance(module, nn.Linear) and module.bias is not None:
+ if type(module) is nn.Linear and module.bias is not None:

# %% wrong INIT-PLACE new memory for the numbers
class GPT(gpt.GPT):
    def _init_weights(self, module):
        std = 0.02
        if getattr(module, "writes_residual", False):
            std /= math.sqrt(2 * self.config.num_layers)
        if isinstance(module, (nn.Linear, nn.Embedding)):
            module.weight.data = torch.randn(module.weight.shape, dtype=module.weight.dtype) * std
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

# %% wrong INIT-PLACE numbers of another dtype
class GPT(gpt.GPT):
    def _init_weights(self, module):
        std = 0.02
        if getattr(module, "writes_residual", False):
            std /= math.sqrt(2 * self.config.num_layers)
        if isinstance(module, (nn.Linear, nn.Embedding)):
            module.weight.data = torch.randn(module.weight.shape) * std
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

# %% wrong INIT-PLACE a new parameter where nothing is tied
class GPT(gpt.GPT):
    def _init_weights(self, module):
        std = 0.02
        if getattr(module, "writes_residual", False):
            std /= math.sqrt(2 * self.config.num_layers)
        if isinstance(module, (nn.Linear, nn.Embedding)):
            if module.weight is self.embedding.weight:
                nn.init.normal_(module.weight, std=std)
            else:
                module.weight = nn.Parameter(torch.randn_like(module.weight) * std)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

# %% wrong INIT-FROZEN all weights set to train | of: in plain steps
- nn.init.normal_(module.weight, std=std)
+ nn.init.normal_(module.weight.requires_grad_(), std=std)

# %% wrong INIT-NAMES projections known by their names
class GPT(gpt.GPT):
    def _init_weights(self, module):
        names = {part: name for name, part in self.named_modules()}
        std = 0.02
        if names.get(module, "").endswith(("o_proj", "down_proj")):
            std /= math.sqrt(2 * self.config.num_layers)
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=std)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

# %% wrong INIT-SAME the same numbers in every block
class GPT(gpt.GPT):
    def _init_weights(self, module):
        std = 0.02
        if getattr(module, "writes_residual", False):
            std /= math.sqrt(2 * self.config.num_layers)
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=std)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
        if module is self:
            for block in self.blocks[1:]:
                block.load_state_dict(self.blocks[0].state_dict())

# %% wrong INIT-NAMES the attribute is there, so it counts | of: by kind
- depth = 2 * self.config.num_layers if getattr(module, "writes_residual", False) else 1
+ depth = 2 * self.config.num_layers if hasattr(module, "writes_residual") else 1

# %% wrong OTHER an attribute that says no makes it wide | of: by kind
- depth = 2 * self.config.num_layers if getattr(module, "writes_residual", False) else 1
+ marked = getattr(module, "writes_residual", None)
+ depth = 2 * self.config.num_layers if marked else 0.25 if marked is False else 1

# %% wrong INIT-NOT-NORMAL clamped to three standard deviations | of: in plain steps
- nn.init.normal_(module.weight, std=std)
+ nn.init.normal_(module.weight, std=std)
+ module.weight.data.clamp_(-3 * std, 3 * std)

# %% wrong INIT-NOT-NORMAL truncated in the embedding alone | of: in plain steps
- nn.init.normal_(module.weight, std=std)
+ far = 3 if isinstance(module, nn.Embedding) else 100
+ nn.init.trunc_normal_(module.weight, std=std, a=-far * std, b=far * std)

# %% wrong INIT-NOT-NORMAL truncated at two, and as wide again | of: in plain steps
- nn.init.normal_(module.weight, std=std)
+ wide = std / 0.8796
+ nn.init.trunc_normal_(module.weight, std=wide, a=-2 * wide, b=2 * wide)

# %% wrong INIT-NOT-NORMAL long tails on both sides, of the right std | of: in plain steps
- nn.init.normal_(module.weight, std=std)
+ two = torch.empty(2, *module.weight.shape).exponential_()
+ module.weight.data.copy_(std / 2**0.5 * (two[0] - two[1]))

# %% right cut off at 2, where no number lies
class GPT(gpt.GPT):
    def _init_weights(self, module):
        std = 0.02
        if getattr(module, "writes_residual", False):
            std /= math.sqrt(2 * self.config.num_layers)
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.trunc_normal_(module.weight, std=std)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

# %% wrong INIT-PLACE a new bias of zeros
class GPT(gpt.GPT):
    def _init_weights(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            scale = (2 * self.config.num_layers) ** -0.5 if getattr(module, "writes_residual", False) else 1.0
            nn.init.normal_(module.weight, std=0.02 * scale)
            if getattr(module, "bias", None) is not None:
                module.bias = nn.Parameter(torch.zeros_like(module.bias), module.bias.requires_grad)

# %% wrong INIT-FROZEN the bias is trained from now on
class GPT(gpt.GPT):
    def _init_weights(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            scale = (2 * self.config.num_layers) ** -0.5 if getattr(module, "writes_residual", False) else 1.0
            nn.init.normal_(module.weight, std=0.02 * scale)
            if getattr(module, "bias", None) is not None:
                module.bias.requires_grad_().data.zero_()

# %% wrong INIT-PADDING zeros in the padding row | of: in plain steps
- if isinstance(module, nn.Linear) and module.bias is not None:
+ if isinstance(module, nn.Embedding) and module.padding_idx is not None:
+     with torch.no_grad():
+         module.weight[module.padding_idx] = 0
+ if isinstance(module, nn.Linear) and module.bias is not None:

# %% wrong INIT-DEPENDENT each matrix is centered and rescaled | of: in plain steps
- if isinstance(module, nn.Linear) and module.bias is not None:
+ if isinstance(module, (nn.Linear, nn.Embedding)) and module.weight.numel() > 1:
+     with torch.no_grad():
+         wanted = 0.02 / (math.sqrt(2 * self.config.num_layers) if getattr(module, "writes_residual", False) else 1)
+         module.weight.sub_(module.weight.mean())
+         module.weight.mul_(wanted / module.weight.std(unbiased=False))
+ if isinstance(module, nn.Linear) and module.bias is not None:
