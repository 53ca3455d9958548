"""The sums that a learner types: `evaluate("3 * 768 / sqrt(64)")`.

Numbers, + - * / // % ** and the functions of `FUNCTIONS`. Nothing else is ever run: the text is
parsed to Python's syntax tree, and a node that is not listed here is refused.
"""

import ast
import math
import operator

FUNCTIONS = {
    "abs": abs, "ceil": math.ceil, "exp": math.exp, "floor": math.floor, "log": math.log,
    "log2": math.log2, "max": max, "min": min, "round": round, "sqrt": math.sqrt,
}  # fmt: skip
OPERATIONS = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow,
    ast.USub: operator.neg, ast.UAdd: operator.pos,
}  # fmt: skip
LONGEST = 300


def evaluate(text: str) -> float:
    """The value of a sum; ValueError, in a sentence, for anything that is none."""
    if len(text) > LONGEST:
        raise ValueError(f"a sum has at most {LONGEST} characters, got {len(text)}")
    try:
        found = _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, RecursionError, MemoryError):
        raise ValueError(f"{text.strip()!r} is no sum") from None
    except (ArithmeticError, TypeError) as problem:
        raise ValueError(f"{text.strip()!r} has no value: {problem}") from None
    if isinstance(found, complex) or not math.isfinite(found):
        raise ValueError(f"{text.strip()!r} has no finite value")
    return found


def _value(node: ast.AST) -> float:
    """In floats: 9 ** 9 ** 9 overflows at once, where whole numbers would fill the memory."""
    match node:
        case ast.Constant(value=value) if type(value) in (int, float):
            return float(value)
        case ast.Name(id="pi"):
            return math.pi
        case ast.UnaryOp(op=op, operand=operand) if type(op) in OPERATIONS:
            return OPERATIONS[type(op)](_value(operand))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATIONS:
            return OPERATIONS[type(op)](_value(left), _value(right))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
            return FUNCTIONS[name](*map(_value, args))
    raise ValueError(f"{ast.unparse(node)!r} is no arithmetic")
