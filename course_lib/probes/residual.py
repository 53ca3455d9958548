"""Which parts of a module say that they write into the residual stream, which its outputs don't show."""

from typing import Any


def writers_of(module: Any) -> list[str]:
    """Names of the parts of `module` whose attribute `writes_residual` is true."""
    return [
        name for name, part in module.named_modules() if getattr(part, "writes_residual", False)
    ]
