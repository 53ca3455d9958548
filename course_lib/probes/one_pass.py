"""Documents that can be gone through once, as those of a generator, and can be sent to a worker."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass
class OnePass:
    """An iterable without a length or an index; a second loop over it finds nothing."""

    texts: list[str]

    def __iter__(self) -> Iterator[str]:
        left, self.texts = self.texts, []
        return iter(left)
