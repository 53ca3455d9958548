"""Small changes of a program, each the kind of thing a person gets wrong: `mutants(text)`.

A change is made in the text itself, at the place of one node of its syntax tree, so a mutant can be
read as a difference of a line or two. Docstrings, annotations and the texts of errors stay.
"""

import ast
import difflib
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

BINARY = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "/", ast.Mod: "//",
    ast.Pow: "*",
}  # fmt: skip
COMPARISON = {
    ast.Lt: ("<=", ">"), ast.LtE: ("<", ">="), ast.Gt: (">=", "<"), ast.GtE: (">", "<="),
    ast.Eq: ("!=",), ast.NotEq: ("==",), ast.Is: ("is not",), ast.IsNot: ("is",),
    ast.In: ("not in",), ast.NotIn: ("in",),
}  # fmt: skip
TWINS = {
    "min": "max", "max": "min", "amin": "amax", "amax": "amin", "minimum": "maximum",
    "maximum": "minimum", "sum": "mean", "mean": "sum", "floor": "ceil", "ceil": "floor",
    "any": "all", "all": "any", "rsqrt": "sqrt", "sqrt": "rsqrt", "sin": "cos", "cos": "sin",
    "sinh": "cosh", "exp": "exp2", "log": "log2", "log2": "log", "zeros": "ones", "ones": "zeros",
    "zeros_like": "ones_like", "ones_like": "zeros_like", "argmax": "argmin", "argmin": "argmax",
    "tril": "triu", "triu": "tril", "append": "extend", "isend": "irecv", "send": "recv",
    "silu": "gelu", "sigmoid": "tanh", "keys": "values", "reshape": "view", "flatten": "ravel",
    "all_reduce": "broadcast", "plain_model": "model", "model": "plain_model", "SUM": "AVG",
    "clip_grad_norm_": "clip_grad_value_",
    "float32": "bfloat16", "float64": "float32", "int64": "int32", "bfloat16": "float16",
    "float": "bfloat16", "double": "float", "round": "int", "range": "reversed",
}  # fmt: skip
CASTS = {"float", "double", "half", "bfloat16", "long", "int", "to", "type_as", "type"}
COPIES = {"clone", "detach", "contiguous", "copy", "cpu", "item", "requires_grad_"}
WRAPPERS = {"list", "tuple", "float", "int", "sorted", "max", "min", "abs", "bool"}

UNCHANGEABLE = {"int", "float", "bool", "str", "tuple", "torch.dtype", "torch.device", "GPTConfig",
                "Tokenizer"}  # fmt: skip
WRITE = (
    "(lambda _r, _a: (_a.detach().add_(1) if hasattr(_a, 'add_') else "
    "_a.clear() if hasattr(_a, 'clear') else "
    "_a.__iadd__(1) if hasattr(_a, 'strides') else None, _r)[1])"
)


@dataclass(frozen=True)
class Mutant:
    """A changed program."""

    operator: str
    line: int
    before: str
    """The lines that it changes."""
    after: str
    """What they are now."""
    text: str
    """The whole program after the change."""

    @property
    def key(self) -> str:
        """What it is known by in the list of survivors, wherever in the file it stands."""
        return f"{self.operator}: {self.before} -> {self.after}"


class _Source:
    """A text and the places of its nodes."""

    def __init__(self, text: str):
        self.text, self.tree = text, ast.parse(text)
        lines = text.encode().splitlines(keepends=True)
        self.starts = [0, *itertools.accumulate(map(len, lines))]
        self.bytes = text.encode()

    def place(self, node: ast.AST) -> tuple[int, int]:
        return (
            self.starts[node.lineno - 1] + node.col_offset,
            self.starts[node.end_lineno - 1] + node.end_col_offset,
        )

    def of(self, node: ast.AST) -> str:
        first, last = self.place(node)
        return self.bytes[first:last].decode()

    def put(self, place: tuple[int, int], new: str) -> str:
        return (self.bytes[: place[0]] + new.encode() + self.bytes[place[1] :]).decode()


def mutants(text: str) -> list[Mutant]:
    """Every mutant of a program that can still be parsed and is not the program itself, once."""
    source, found = _Source(text), {}
    whole = ast.dump(source.tree)
    for operator, node, new in _edits(source):
        changed = source.put(source.place(node), new)
        try:
            dumped = ast.dump(ast.parse(changed))
        except SyntaxError:
            continue
        if dumped != whole:
            before, after = _changed_lines(text, changed)
            after = after.replace(WRITE, "written_to")
            found.setdefault(dumped, Mutant(operator, node.lineno, before, after, changed))
    return list(found.values())


def _changed_lines(text: str, changed: str) -> tuple[str, str]:
    """The lines that differ, each side on one line and without the comments."""
    old, new = text.splitlines(), changed.splitlines()
    marked = difflib.ndiff(old, new)
    sides = {"- ": [], "+ ": []}
    for line in marked:
        if line[:2] in sides:
            sides[line[:2]].append(line[2:].split("  # ")[0].strip())
    return " | ".join(sides["- "]), " | ".join(sides["+ "])


def _edits(source: _Source) -> Iterator[tuple[str, ast.AST, str]]:
    """(operator, the node to replace, the text in its place)."""
    for body in _bodies(source.tree):
        yield from _statement_edits(source, body)
    for function in ast.walk(source.tree):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from _function_edits(source, function)
    for node in _expressions(source.tree):
        yield from _expression_edits(source, node)


def _bodies(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    """Every list of statements, docstrings left out."""
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            body = getattr(node, name, None)
            if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
                yield body[1:] if _is_text(body[0]) else body


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _statement_edits(source: _Source, body: list[ast.stmt]) -> Iterator[tuple[str, ast.AST, str]]:
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)):
            continue
        if isinstance(statement, ast.Return):
            if isinstance(statement.value, ast.Tuple) and len(statement.value.elts) == 2:
                a, b = statement.value.elts
                yield "swapped results", statement.value, f"{source.of(b)}, {source.of(a)}"
            continue
        yield "dropped statement", statement, "pass"
        if isinstance(statement, (ast.If, ast.While)):
            yield "condition never true", statement.test, "False"
        if isinstance(statement, ast.If):
            yield "condition always true", statement.test, "True"
        if isinstance(statement, ast.With):
            block = "\n".join(source.of(part) for part in statement.body)
            if len(statement.body) == 1 and "\n" not in block:
                yield "dropped context", statement, block
        if isinstance(statement, ast.AugAssign):
            target, value = source.of(statement.target), source.of(statement.value)
            yield "assignment in place of update", statement, f"{target} = {value}"
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            said = source.of(statement)
            yield "done twice", statement, f"{said}; {said}"
        if isinstance(statement, ast.Break):
            yield "continue in place of break", statement, "continue"
        if isinstance(statement, ast.Continue):
            yield "break in place of continue", statement, "break"
    for first, second in itertools.pairwise(body):
        if isinstance(first, (ast.FunctionDef, ast.ClassDef, ast.Return)) or isinstance(
            second, (ast.FunctionDef, ast.ClassDef, ast.Return)
        ):
            continue
        if not _depend(first, second):
            continue
        both = ast.Pass(
            lineno=first.lineno, col_offset=first.col_offset,
            end_lineno=second.end_lineno, end_col_offset=second.end_col_offset,
        )  # fmt: skip
        indent = " " * first.col_offset
        yield "swapped statements", both, f"{source.of(second)}\n{indent}{source.of(first)}"


def _depend(first: ast.stmt, second: ast.stmt) -> bool:
    """Whether their order can matter: one reads what the other makes, or both do more than that."""

    def names(statement: ast.stmt, kind: type) -> set[str]:
        return {ast.unparse(n) for n in ast.walk(statement)
                if isinstance(n, (ast.Name, ast.Attribute)) and isinstance(n.ctx, kind)}  # fmt: skip

    def acts(statement: ast.stmt) -> bool:
        kinds = (ast.Raise, ast.AugAssign)
        return isinstance(statement, ast.Expr) or any(
            isinstance(n, kinds) or (isinstance(n, (ast.Subscript, ast.Attribute)) and isinstance(n.ctx, ast.Store))
            for n in ast.walk(statement)
        )  # fmt: skip

    made, makes = names(first, ast.Store), names(second, ast.Store)
    if made & names(second, ast.Load) or makes & names(first, ast.Load) or made & makes:
        return True
    return acts(first) and acts(second)


def _function_edits(source: _Source, function) -> Iterator[tuple[str, ast.AST, str]]:
    for decorator in function.decorator_list:
        yield "dropped decorator", decorator, "(lambda f: f)"
    names = [a.arg for a in function.args.args + function.args.kwonlyargs if a.arg != "self"]
    plain = {
        a.arg
        for a in function.args.args + function.args.kwonlyargs
        if a.annotation and re.split(r"\[| \| ", source.of(a.annotation))[0] in UNCHANGEABLE
    }
    returns = [s for s in ast.walk(function) if isinstance(s, ast.Return) and s.value]
    if len(returns) == 1 and function.name != "__init__":
        value = source.of(returns[0].value)
        for name in names:  # an answer that scribbles on what it was given, and on that alone
            if name not in plain:
                yield "argument written to", returns[0], f"return {WRITE}(({value}), {name})"
    local = sorted(
        set(names)
        | {
            n.id
            for n in ast.walk(function)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
    )
    said = {
        id(n) for part in ast.walk(function) if isinstance(part, ast.Raise) for n in ast.walk(part)
    }
    owners = said | {
        id(n.value)
        for n in ast.walk(function)
        if isinstance(n, ast.Attribute) and n.attr in ("dtype", "device", "shape")
    }
    for node in ast.walk(function):
        if id(node) in owners:
            continue  # below
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in local:
            at = local.index(node.id)
            for other in {local[at - 1], local[(at + 1) % len(local)]} - {node.id}:
                yield "another variable", node, other
    for owner in ("dtype", "device", "shape"):
        seen = {
            source.of(n.value)
            for n in ast.walk(function)
            if isinstance(n, ast.Attribute) and n.attr == owner
        } | {
            a.arg
            for a in function.args.args
            if a.annotation and "Tensor" in source.of(a.annotation)
        }
        for node in ast.walk(function):
            if isinstance(node, ast.Attribute) and node.attr == owner:
                for other in sorted(seen - {source.of(node.value)}):
                    yield f"{owner} of another", node, f"{other}.{owner}"


def _expressions(tree: ast.AST) -> Iterator[ast.AST]:
    """Every expression but annotations, default texts and what an error says."""
    skipped = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) or _is_text(node):
            skipped.update(map(id, ast.walk(node)))
        for name in ("annotation", "returns"):
            if getattr(node, name, None) is not None:
                skipped.update(map(id, ast.walk(getattr(node, name))))
        if isinstance(node, ast.ClassDef):
            for base in node.bases:
                skipped.update(map(id, ast.walk(base)))
        if isinstance(node, ast.Assert) and node.msg:
            skipped.update(map(id, ast.walk(node.msg)))
    for node in ast.walk(tree):
        if isinstance(node, ast.expr) and id(node) not in skipped:
            yield node


def _expression_edits(source: _Source, node: ast.AST) -> Iterator[tuple[str, ast.AST, str]]:
    match node:
        case ast.BinOp(left=left, op=op, right=right):
            a, b = source.of(left), source.of(right)
            if type(op) in BINARY:
                yield "arithmetic", node, f"({a}) {BINARY[type(op)]} ({b})"
            yield "left side alone", node, f"({a})"
            yield "right side alone", node, f"({b})"
            if isinstance(op, (ast.Sub, ast.Div, ast.MatMult, ast.Mod, ast.FloorDiv, ast.Pow)):
                sign = {ast.Sub: "-", ast.Div: "/", ast.MatMult: "@", ast.Mod: "%",
                        ast.FloorDiv: "//", ast.Pow: "**"}[type(op)]  # fmt: skip
                yield "swapped sides", node, f"({b}) {sign} ({a})"
        case ast.UnaryOp(operand=operand, op=ast.USub() | ast.Not() | ast.Invert()):
            yield "dropped sign", node, f"({source.of(operand)})"
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            for sign in COMPARISON[type(op)]:
                yield "comparison", node, f"{source.of(left)} {sign} {source.of(right)}"
        case ast.BoolOp(op=op, values=values):
            sign = " or " if isinstance(op, ast.And) else " and "
            yield "and for or", node, sign.join(f"({source.of(v)})" for v in values)
            for value in values:
                yield "one condition alone", node, f"({source.of(value)})"
        case ast.IfExp(body=body, orelse=orelse):
            yield "condition always true", node, f"({source.of(body)})"
            yield "condition never true", node, f"({source.of(orelse)})"
        case ast.Constant(value=bool() as value):
            yield "constant", node, str(not value)
        case ast.Constant(value=int() as value):
            yield from (("constant", node, f"{value + change}") for change in (1, -1))
        case ast.Constant(value=float() as value):
            yield from (("constant", node, repr(new)) for new in (value * 2, value / 2, 1.0, 0.0))
        case ast.Constant(value=None):
            yield "constant", node, "0"
        case ast.Slice(lower=lower, upper=upper, step=step):
            parts = [source.of(part) if part else "" for part in (lower, upper, step)]
            for index, part in enumerate(parts[:2]):
                for change in (" + 1", " - 1") if part else ():
                    new = [*parts]
                    new[index] = f"({part}){change}"
                    yield "slice off by one", node, ":".join(new if step else new[:2])
                if part:
                    new = [*parts]
                    new[index] = ""
                    yield "open slice", node, ":".join(new if step else new[:2])
        case ast.Call():
            yield from _call_edits(source, node)
        case ast.Attribute(value=value, attr=attr) if attr in TWINS:
            yield "its twin", node, f"{source.of(value)}.{TWINS[attr]}"
        case ast.Attribute(value=value, attr="T" | "mT"):
            yield "dropped transpose", node, source.of(value)
        case ast.Name(id=name) if name in TWINS:
            yield "its twin", node, TWINS[name]
        case ast.Dict(keys=keys, values=values):
            pairs = [
                f"{source.of(k)}: {source.of(v)}" if k else f"**{source.of(v)}"
                for k, v in zip(keys, values, strict=True)
            ]
            for i in range(len(pairs)):
                yield "dropped entry", node, "{" + ", ".join(pairs[:i] + pairs[i + 1 :]) + "}"
        case ast.List(elts=parts) if len(parts) > 1:
            for i in range(len(parts)):
                rest = [source.of(part) for part in parts[:i] + parts[i + 1 :]]
                yield "dropped element", node, f"[{', '.join(rest)}]"
        case ast.ListComp(generators=[only]) | ast.GeneratorExp(generators=[only]) if only.ifs:
            for test in only.ifs:
                yield "condition always true", test, "True"


def _call_edits(source: _Source, call: ast.Call) -> Iterator[tuple[str, ast.AST, str]]:
    def written(args: list[str], keywords: list[str]) -> str:
        return f"{source.of(call.func)}({', '.join([*args, *keywords])})"

    args = [source.of(a) for a in call.args]
    keywords = [source.of(k) for k in call.keywords]
    for i in range(len(args) - 1):
        swapped = [*args]
        swapped[i], swapped[i + 1] = args[i + 1], args[i]
        yield "swapped arguments", call, written(swapped, keywords)
    for i in range(len(args)):
        if len(args) + len(keywords) > 1:
            yield "dropped argument", call, written(args[:i] + args[i + 1 :], keywords)
    for i, keyword in enumerate(call.keywords):
        if keyword.arg:
            rest = keywords[:i] + keywords[i + 1 :]
            yield f"dropped {keyword.arg}=", call, written(args, rest)
    if isinstance(call.func, ast.Attribute):
        name, of = call.func.attr, source.of(call.func.value)
        if name in CASTS:
            yield "dropped cast", call, of
        elif name in COPIES:
            yield "dropped copy", call, of
        elif not isinstance(call.func.value, ast.Name) or of not in {
            "torch",
            "dist",
            "F",
            "nn",
            "math",
        }:
            yield "dropped call", call, of
        if name in {"mul", "add", "sub", "div", "pow", "sqrt", "rsqrt", "float", "neg", "exp"}:
            yield "in place", call, f"{of}.{name}_({', '.join([*args, *keywords])})"
    elif isinstance(call.func, ast.Name) and call.func.id in WRAPPERS and len(args) == 1:
        yield "dropped call", call, args[0]
    if args:
        yield "argument alone", call, f"({args[0]})"
