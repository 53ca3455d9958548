"""Arithmetic in text: what stands between braces in a review item, and what a learner types.

`evaluate("0.1 / sqrt(0.001)")` knows numbers, strings, names, + - * / // % **, comparisons,
`a if b else c` and the functions of `FUNCTIONS`. Nothing else is ever run: the text is parsed to
Python's syntax tree, and a node that is not listed here is refused.
"""

import ast
import math
import operator
import re
from collections.abc import Mapping

Value = int | float | str
FUNCTIONS = {
    "abs": abs,
    "ceil": math.ceil,
    "cos": math.cos,
    "exp": math.exp,
    "floor": math.floor,
    "int": int,
    "log": math.log,
    "log2": math.log2,
    "max": max,
    "min": min,
    "round": round,
    "sin": math.sin,
    "sqrt": math.sqrt,
    "capital": lambda text: str(text)[:1].upper() + str(text)[1:],
}
CONSTANTS = {"pi": math.pi}
OPERATIONS = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: pow, ast.USub: operator.neg,
    ast.UAdd: operator.pos, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip
LONGEST = 300
HOLE = re.compile(r"\{([^{}]+?)(?::([,.\d]*[dfg]))?\}")


def evaluate(text: str, names: Mapping[str, Value] | None = None) -> Value:
    """The value of an expression; ValueError, in a sentence, for anything that is not one."""
    if len(text) > LONGEST:
        raise ValueError(f"an expression has at most {LONGEST} characters, got {len(text)}")
    try:
        tree = ast.parse(text.strip(), mode="eval")
        found = _value(tree.body, {**CONSTANTS, **(names or {})})
        finite = isinstance(found, str) or math.isfinite(found)
    except (SyntaxError, RecursionError, MemoryError):
        raise ValueError(f"{text.strip()!r} is not an expression") from None
    except (ArithmeticError, TypeError) as problem:
        raise ValueError(f"{text.strip()!r} has no value: {problem}") from None
    if not finite:
        raise ValueError(f"{text.strip()!r} has no finite value")
    return found


def render(template: str, names: Mapping[str, Value]) -> str:
    """`template` with each `{expression}` or `{expression:format}` replaced by its value."""
    return HOLE.sub(lambda hole: show(evaluate(hole[1], names), hole[2]), template)


def show(value: Value, form: str | None = None) -> str:
    """As the lessons write numbers: 12,288, and otherwise three digits; or by a format of Python's.

    >>> show(4718592), show(11.3137), show(0.00002), show(3.0)
    ('4,718,592', '11.3', '0.00002', '3')
    """
    if form:
        return format(value, form)
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int):
        return f"{value:,}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    shown = f"{value:,.{digits}f}"
    return shown.rstrip("0").rstrip(".") if "." in shown else shown


def _value(node: ast.AST, names: Mapping[str, Value]) -> Value:
    match node:
        case ast.Constant(value=value) if type(value) in (int, float, str):
            return value
        case ast.Name(id=name):
            if name not in names:
                raise ValueError(f"there is no {name!r} here")
            return names[name]
        case ast.UnaryOp(op=op, operand=operand) if type(op) in OPERATIONS:
            return OPERATIONS[type(op)](_value(operand, names))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATIONS:
            return _apply(op, _value(left, names), _value(right, names))
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in OPERATIONS:
            return OPERATIONS[type(op)](_value(left, names), _value(right, names))
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _value(body if _value(test, names) else orelse, names)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
            return FUNCTIONS[name](*(_value(arg, names) for arg in args))
    raise ValueError(f"{ast.unparse(node)!r} is not arithmetic that a review knows")


def _apply(op: ast.operator, left: Value, right: Value) -> Value:
    if isinstance(left, str) or isinstance(right, str):
        raise ValueError("words cannot be calculated with")
    # 9**9**9 would fill the memory before anyone could stop it; a float overflows instead.
    if isinstance(op, ast.Pow) and (abs(right) > 64 or abs(left) > 1e6):
        return float(left) ** float(right)
    if isinstance(op, (ast.Mult, ast.Add, ast.Sub)) and max(abs(left), abs(right)) > 1e30:
        left, right = float(left), float(right)
    result = OPERATIONS[type(op)](left, right)
    if isinstance(result, complex):
        raise ValueError("that is no real number")
    return result
