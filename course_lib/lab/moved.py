"""Old names of the library and today's: the table, and `rewrite`, which brings a text up to date.

What a learner has written goes on working when the library is put in another order: files in
`mine/`, notebooks that were handed out before, scripts. An entry stays for as long as somebody may
still have such a text. Whoever renames something public adds a line here.
"""

import ast
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

MODULES = {
    "course_lib." + old: "course_lib." + new
    for old, new in {
        "adamw": "training.adamw",
        "batches": "data.batches",
        "checkpoint": "checkpoints.single_file",
        "chunked_loss": "fast.chunked_loss",
        "collectives": "ranks.collectives",
        "corpus": "data.corpus",
        "ddp": "parallel.ddp",
        "ddp_trainer": "training.ddp_trainer",
        "demo": "training.demo",
        "documents": "data.documents",
        "flash": "fast.flash",
        "fp8": "fast.fp8",
        "fsdp_config": "training.fsdp_config",
        "fsdp_trainer": "training.fsdp_trainer",
        "fused_rmsnorm": "fast.fused_rmsnorm",
        "gpt2_ranks": "data.gpt2_ranks",
        "hang": "ranks.hang",
        "heartbeat": "runs.heartbeat",
        "local_ranks": "ranks.local_ranks",
        "loss_scaling": "training.loss_scaling",
        "manifest": "checkpoints.manifest",
        "measure.climb": "ladder.climb",
        "measure.clock_drive": "probes.clock",
        "measure.ddp_drive": "probes.ddp",
        "measure.ddp_twin": "probes.ddp_twin",
        "measure.fsdp_checkpoint_drive": "probes.fsdp_checkpoint",
        "measure.fsdp_drive": "probes.fsdp",
        "measure.kernel_drive": "probes.kernel",
        "measure.known_state": "probes.known_state",
        "measure.ladder": "ladder.gains",
        "measure.ladder_report": "ladder.report",
        "measure.ngram": "data.ngram",
        "measure.operations_drive": "probes.operations",
        "measure.ring_drive": "probes.ring",
        "measure.rung_data": "ladder.rung_data",
        "measure.rungs": "ladder.rungs",
        "measure.seats": "probes.seats",
        "measure.sharding_drive": "probes.mini_fsdp",
        "measure.traffic": "ranks.traffic",
        "measure.zero_drive": "probes.zero",
        "options": "runs.options",
        "padding": "fast.padding",
        "precision": "training.precision",
        "prefetch": "data.prefetch",
        "recompute": "fast.recompute",
        "run_log": "runs.run_log",
        "saved_state": "checkpoints.saved_state",
        "shard_file": "data.token_file",
        "shard_index": "checkpoints.dcp_index",
        "shard_writer": "checkpoints.dcp_writer",
        "sharded_checkpoint": "checkpoints.sharded",
        "sharding": "parallel.mini_fsdp",
        "shards": "data.token_store",
        "sources": "data.sources",
        "tiles": "fast.tiles",
        "tokenizer": "data.tokenizer",
        "train_config": "training.train_config",
        "triton_flash": "fast.triton_flash",
        "words": "data.gpt2_words",
        "world": "ranks.world",
        "zero": "parallel.zero",
    }.items()
}
"""Modules under another address."""

NAMES = {
    "course_lib." + old: "course_lib." + new
    for old, new in {
        "batches:shard_of_rank": "data.batches:rows_of_rank",
        "checkpoint:CheckpointError": "checkpoints.files:CheckpointError",
        "checkpoint:plain_names": "checkpoints.saved_state:plain_names",
        "checkpoint:load": "checkpoints.whole:load",  # files and folders of shards, as it did
        "checkpoint:random_states": "runs.random_states:random_states",
        "checkpoint:refuse_other_shapes": "checkpoints.saved_state:refuse_other_shapes",
        "checkpoint:restore_random_states": "runs.random_states:restore_random_states",
        "checkpoint:sync_folder": "checkpoints.files:sync_folder",
        "checkpoint:WRAPPERS": "checkpoints.saved_state:WRAPPERS",
        "checkpoint:write_file": "checkpoints.files:write_file",
        "flash:flash_attention": "fast.flash_attention:flash_attention",
        "measure.traffic:Held": "measure.held:Held",
        "measure.traffic:held_now": "measure.held:held_now",
        "shard_file:ShardWriter": "data.token_file:TokenFileWriter",
        "sharded_checkpoint:main": "checkpoints.whole:main",
        "sharded_checkpoint:whole_state": "checkpoints.whole:whole_state",
        "shards:Shards": "data.token_store:TokenStore",
        "checkpoints.manifest:published": "checkpoints.manifest:find_published",
        "checkpoints.saved_state:named": "checkpoints.saved_state:name_parameters",
        "checkpoints.saved_state:nested": "checkpoints.saved_state:unflatten",
        "checkpoints.saved_state:numbered": "checkpoints.saved_state:number_parameters",
        "fast.recompute:selective": "fast.recompute:selective_contexts",
        "fast.tiles:counted": "fast.tiles:count_launches",
        "ladder.report:stored": "ladder.report:read_record",
        "measure.formats:named": "measure.formats:find_format",
        "measure.formats:rounded": "measure.formats:round_to_format",
        "measure.formats:stored": "measure.formats:fake_quantize",
        "measure.operations:overwritten": "measure.operations:written_arguments",
        "measure.trace:marked": "measure.trace:mark_range",
        "probes.known_state:local": "probes.known_state:local_part",
        "training.fsdp_trainer:whole": "training.fsdp_trainer:full_tensor",
    }.items()
}
"""Names that went elsewhere than their module, or are called otherwise: "module:name". The module is
the one that a text was written with: what has moved twice has two lines."""
TOUCHED = MODULES.keys() | {old.partition(":")[0] for old in NAMES}

TRAINERS = {"DistributedTrainer", "FSDPTrainer"}
METHODS = {
    "_autocast": "autocast",
    "_backward": "backward",
    "_mean_loss": "mean_loss",
    "_micro_batches": "micro_batches",
    "_over_ranks": "sum_over_ranks",
}
"""Methods of the trainers."""

ANSWERS = {"shard_of_rank": "rows_of_rank"}
"""What an exercise asks for, when it is called otherwise now: the learner's own definition too."""

ADDRESS = re.compile(r"""(?:(?<=['"])|(?<=-m ))(course_lib(?:\.\w+)+)(?::(\w+))?(?=['"\s]|$)""")
WORD = re.compile(r"\w+")
MAGIC = re.compile(r"^[ \t]*[%!].*$", re.M)
DEPTH = 5
"""No module has an address of more parts, nor a name in it."""
HINTS = re.compile(rf"course_lib|\b({'|'.join([*METHODS, *ANSWERS])})\b")
"""What a text with an old name in it has, unless it gets a module from another text."""


def find_new_address(module: str, name: str = "") -> tuple[str, str]:
    """Where `name` of `module`, or without a name the module, is today; itself when never moved."""
    for _ in range(len(MODULES) + len(NAMES)):  # a name may have moved more than once
        if found := NAMES.get(f"{module}:{name}"):
            module, _, name = found.partition(":")
        elif module in MODULES:
            module = MODULES[module]
        else:
            break
    return module, name


def rewrite(text: str, others: Sequence[str] = ()) -> str:
    """`text`, Python of a cell or a file, with today's names; comments and layout stay.

    `others` are texts that run before it, such as the other cells of a notebook: a module that they
    import and `text` uses is known by them. A text without old names comes back as it is, and so
    does one that is not Python. IPython's own lines are looked through for `-m course_lib...` alone.
    """
    return rewrite_all([text, *others])[0]


def rewrite_all(texts: Sequence[str]) -> list[str]:
    """`rewrite` for each of several texts that run together: the cells of one notebook."""
    shared = _Known()
    for text in texts:
        if "course_lib" in text and (found := _parse(_split_magic(text)[1])):
            shared.add(found[1], here=False)
    moved = shared.aliases.keys()
    return [
        _rewrite(t, shared) if HINTS.search(t) or moved & set(WORD.findall(t)) else t for t in texts
    ]


def _rewrite(text: str, shared: "_Known") -> str:
    head, rest = _split_magic(text)
    if (found := _parse(rest)) is None:
        return _rewrite_addresses(text) if head else text
    known = _Known(dict(shared.aliases), set(), set(shared.explicit), shared.trains)
    known.add(found[1], here=True)
    new = _Rewriting(*found, known).run()
    return _rewrite_addresses(head) + new if _parse(new) else text


def _split_magic(text: str) -> tuple[str, str]:
    """The first line where it is a cell's magic (`%%writefile train.py`), and the rest."""
    if not text.startswith("%%"):
        return "", text
    head, newline, rest = text.partition("\n")
    return head + newline, rest


def _parse(text: str) -> tuple[bytes, ast.Module] | None:
    """The bytes to which the tree's positions belong, and the tree; None for what is not Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            source = text.encode()
            try:
                return source, ast.parse(text)
            except SyntaxError:
                bare = MAGIC.sub(lambda m: "#" * len(m[0].encode()), text)
                return source, ast.parse(bare)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def _rewrite_addresses(text: str) -> str:
    """ "module", "module:name" and "module.name" in a string or a command."""

    def change(match: re.Match) -> str:
        module, name = match[1], match[2] or ""
        new, new_name = find_new_address(module, name)
        if (new, new_name) == (module, name) and not name:
            parent, _, last = module.rpartition(".")
            new = ".".join(find_new_address(parent, last))
        return f"{new}:{new_name}" if name else new

    return ADDRESS.sub(change, text)


@dataclass
class _Known:
    """What the imports of some texts say."""

    aliases: dict[str, str] = field(default_factory=dict)
    """Local name -> address of a module."""
    imported_here: set[str] = field(default_factory=set)
    explicit: set[str] = field(default_factory=set)
    """Local names that were chosen with `as`."""
    trains: bool = False
    """Whether a trainer is spoken of."""

    def add(self, tree: ast.Module, *, here: bool) -> None:
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                for alias in node.names:
                    self._add_alias(node, alias, here)
            named = getattr(node, "id", getattr(node, "attr", getattr(node, "name", "")))
            self.trains |= named in TRAINERS | {"ddp_trainer", "fsdp_trainer"}

    def _add_alias(self, node: ast.Import | ast.ImportFrom, alias: ast.alias, here: bool) -> None:
        local = alias.asname or alias.name
        if isinstance(node, ast.ImportFrom):
            address = f"{node.module}.{alias.name}"
        elif alias.asname:
            address = alias.name
        else:
            local = address = alias.name.partition(".")[0]
        if address == "course_lib" or address in TOUCHED:
            self.aliases[local] = address
            if alias.asname:
                self.explicit.add(local)
        if here:
            self.imported_here.add(local)


class _Rewriting:
    """The edits to one text."""

    def __init__(self, source: bytes, tree: ast.Module, known: _Known):
        self.source, self.tree, self.known = source, tree, known
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.edits: dict[tuple[int, int], str] = {}
        self.needed: dict[str, str] = {}
        """Local name -> import line that the text lacks."""
        nodes = list(ast.walk(tree))
        self.names = {n.id for n in nodes if isinstance(n, ast.Name)}
        self.names |= {n.arg for n in nodes if isinstance(n, ast.arg)}
        self.names |= {n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.ClassDef)}
        self.answers = {old: new for old, new in ANSWERS.items() if new not in self.names}
        self.methods = METHODS if known.trains else {}
        own = {n.name for n in nodes if isinstance(n, ast.FunctionDef)} - self._overridden(nodes)
        self.methods = {old: new for old, new in self.methods.items() if old not in own}
        self.inside: set[int] = set()
        """Nodes that belong to an edit made already."""

    def run(self) -> str:
        for node in ast.walk(self.tree):  # the outer node first
            if change := getattr(self, f"_change_{type(node).__name__}", None):
                change(node)
        self._edit_imports()
        pieces, done = [], 0
        for (start, end), new in sorted(self.edits.items()):
            pieces += [self.source[done:start], new.encode()]
            done = end
        text = b"".join([*pieces, self.source[done:]]).decode()
        return MAGIC.sub(lambda m: _rewrite_addresses(m[0]), text)

    def _overridden(self, nodes: list[ast.AST]) -> set[str]:
        """Methods that a trainer of the text's own defines anew: they are renamed with the rest."""
        return {
            part.name
            for node in nodes
            if isinstance(node, ast.ClassDef)
            and TRAINERS
            & {node.name, *(getattr(b, "attr", getattr(b, "id", "")) for b in node.bases)}
            for part in node.body
            if isinstance(part, ast.FunctionDef)
        }

    def _edit(self, start: int, end: int, new: str) -> None:
        if self.source[start:end] != new.encode():
            self.edits[start, end] = new

    def _span(self, node: Any) -> tuple[int, int]:
        start = self.starts[node.lineno - 1] + node.col_offset
        return start, self.starts[node.end_lineno - 1] + node.end_col_offset

    def _change_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level or not (node.module or "").startswith("course_lib"):
            return
        lines: dict[str, list[str]] = {}
        renamed = False
        for alias in node.names:
            for module, name in self._import_of(node.module, alias):
                lines.setdefault(module, []).append(name)
                renamed |= name != (
                    f"{alias.name} as {alias.asname}" if alias.asname else alias.name
                )
        if list(lines) == [node.module] and not renamed:
            return
        start, end = self._span(node)
        where = re.match(rb"from\s+([\w.]+)", self.source[start:end])
        if len(lines) == 1 and not renamed and where:
            self._edit(start + where.start(1), start + where.end(1), next(iter(lines)))
            return
        self._edit_statement(
            start, end, [f"from {m} import {', '.join(n)}" for m, n in lines.items()]
        )

    def _import_of(self, module: str, alias: ast.alias) -> list[tuple[str, str]]:
        """(module, "name" or "name as local") for what one name of an import stands for."""
        local = alias.asname or alias.name
        if alias.name == "*":
            moved = [n for n in NAMES if n.partition(":")[0] == module]
            found = [find_new_address(*n.split(":"))[0] for n in moved]
            return [(m, "*") for m in dict.fromkeys([find_new_address(module)[0], *found])]
        if f"{module}.{alias.name}" in MODULES:
            new_module, _, name = find_new_address(f"{module}.{alias.name}")[0].rpartition(".")
        else:
            new_module, name = find_new_address(module, alias.name)
            local = local if alias.asname else self.answers.get(local, local)
        same = name == local and not alias.asname
        return [(new_module, name if same else f"{name} as {local}")]

    def _change_Import(self, node: ast.Import) -> None:
        found = []
        for alias in node.names:
            new = find_new_address(alias.name)[0]
            if alias.asname:
                found.append(f"{new} as {alias.asname}")
                continue
            moved = [n for n in NAMES if n.partition(":")[0] == alias.name]
            found += dict.fromkeys([new, *(find_new_address(*n.split(":"))[0] for n in moved)])
        if any(alias.name in MODULES for alias in node.names):
            self._edit_statement(*self._span(node), [f"import {', '.join(dict.fromkeys(found))}"])

    def _edit_statement(self, start: int, end: int, statements: list[str]) -> None:
        """Several statements in place of one, each on a line of its own where that can be."""
        line = self.source.rfind(b"\n", 0, start) + 1
        before, after = self.source[line:start], self.source[end:].partition(b"\n")[0].strip()
        if before.strip() or after.startswith(b";"):
            self._edit(start, end, "; ".join(statements))
            return
        comments = re.findall(r"#.*$", self.source[start:end].decode(), re.M)
        new = f"\n{before.decode()}".join(statements)
        self._edit(start, end, "  ".join([new, *comments]))

    def _change_Attribute(self, node: ast.Attribute) -> None:
        if id(node) in self.inside:
            return
        if node.attr in self.methods:
            end = self._span(node)[1]
            self._edit(end - len(node.attr), end, self.methods[node.attr])
        path = self._path(node.value)
        if path in TOUCHED:
            self._change_member(node, path)
        elif (own := self._path(node)) in MODULES and isinstance(
            node.value, ast.Attribute | ast.Name
        ):
            if self._root(node).id == "course_lib":
                self._edit(*self._span(node), find_new_address(own)[0])

    def _change_member(self, node: ast.Attribute, path: str) -> None:
        """`module.name`, where the module has moved."""
        module = find_new_address(path)[0]
        new_module, name = find_new_address(path, node.attr)
        start, end = self._span(node)
        local = self._root(node).id
        self.inside |= {id(part) for part in ast.walk(node.value)}
        if local == "course_lib":
            self._edit(start, end, f"{new_module}.{name}")
        elif new_module != module:
            own = name if name not in self.names else f"{local}_{name}"
            self.needed[own] = f"from {new_module} import {name}" + f" as {own}" * (own != name)
            self._edit(start, end, own)
        else:
            self._edit(end - len(node.attr), end, name)
            if module != path:
                self._need_module(local, module)

    def _need_module(self, local: str, module: str) -> None:
        """Import a module that another text imports by a name that is no longer its own."""
        parent, _, last = module.rpartition(".")
        if local not in self.known.imported_here | self.known.explicit and local != last:
            self.needed[local] = f"from {parent} import {last} as {local}"

    def _root(self, node: ast.AST) -> ast.Name:
        while isinstance(node, ast.Attribute):
            node = node.value
        return node

    def _path(self, node: ast.AST) -> str:
        """The address that a name or a chain of attributes stands for, by the imports; or ""."""
        parts = []
        while isinstance(node, ast.Attribute) and len(parts) < DEPTH:
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.known.aliases:
            return ""
        return ".".join([self.known.aliases[node.id], *reversed(parts)])

    def _change_Name(self, node: ast.Name) -> None:
        if node.id in self.answers:
            self._edit(*self._span(node), self.answers[node.id])

    def _change_FunctionDef(self, node: ast.FunctionDef) -> None:
        start = self._span(node)[0]
        new = self.answers.get(node.name) or self.methods.get(node.name)
        where = re.match(rb"def\s+(\w+)", self.source[start:])
        if new and where:
            self._edit(start + where.start(1), start + where.end(1), new)

    def _change_Call(self, node: ast.Call) -> None:
        """`local_ranks.run(..., drive="course_lib...")`: the keyword is `probe`."""
        for keyword in node.keywords:
            value = getattr(keyword.value, "value", None)
            if keyword.arg == "drive" and str(value).startswith("course_lib."):
                start = self._span(keyword)[0]
                self._edit(start, start + len("drive"), "probe")

    def _change_JoinedStr(self, node: ast.JoinedStr) -> None:
        self.inside |= {id(part) for part in ast.walk(node) if isinstance(part, ast.Constant)}

    def _change_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and id(node) not in self.inside:
            start, end = self._span(node)
            self._edit(start, end, _rewrite_addresses(self.source[start:end].decode()))

    def _edit_imports(self) -> None:
        """Put the import lines that the text lacks before its first import or statement."""
        body = list(self.tree.body)
        if body and ast.get_docstring(self.tree) is not None:
            body = body[1:]
        body = [n for n in body if getattr(n, "module", "") != "__future__"]
        first = next((n for n in body if isinstance(n, ast.Import | ast.ImportFrom)), None)
        if not self.needed or not body:
            return
        place = first if first is not None else body[0]
        line = min([place.lineno, *(d.lineno for d in getattr(place, "decorator_list", []))])
        start = self.starts[line - 1]
        lines = "".join(f"{self.needed[own]}\n" for own in sorted(self.needed))
        self.edits[start, start] = lines
