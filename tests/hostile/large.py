"""Right notebooks with 5 MB of one odd thing each; 40 MB together, for who reads them."""

from tests.hostile.case import book, packed


def stuffed(*cells: dict, **more) -> bytes:
    """The right notebook with these cells before the others."""
    nb = book()
    nb["cells"][1:1] = [{"cell_type": "code", "metadata": {}, "source": ""} | one for one in cells]
    return packed(nb | more)


def nested(depth: int) -> list:
    found = []
    for _ in range(depth):
        found = [found]
    return found


MANY = 5_000_000
FIVE_MB = {
    "newlines": stuffed({"source": "\n" * (MANY // 2)}),
    "one line": stuffed({"source": "x = " + "1+" * (MANY // 2) + "1"}),
    "cells": stuffed(*({"source": "x = 1\n" * 370} for _ in range(1_900)), {"source": "y" * 1_000_000}),
    "more cells": stuffed(*({} for _ in range(110_000))),
    "outputs": stuffed({"outputs": [{"output_type": "stream", "name": "stdout", "text": "x" * MANY}]}),
    "many outputs": stuffed({"outputs": [{"output_type": "stream", "text": "x"} for _ in range(130_000)]}),
    "nesting": stuffed({"metadata": {"a": [nested(400) for _ in range(6_300)]}}),
    "attachments": stuffed({"cell_type": "markdown", "attachments": {"a.png": {"image/png": "A" * MANY}}}),
}  # fmt: skip
"""A right notebook with 5 MB of one odd thing."""
REFUSED = {"newlines": "1,000,000 characters", "one line": "1,000,000 characters",
           "cells": "1,000,000 characters", "more cells": "cells, more than"}  # fmt: skip
"""Those of which the reader wants to know no more, and a part of the reason."""
