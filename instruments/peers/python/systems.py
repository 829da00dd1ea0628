"""The systems compared, each behind the same two classes in its own module.

A `Sender` has `send(block)`, `finish()`, which lets readers know that this was all, and `close()`; `sent` counts samples. A
`Reader` has `read(take)`, which calls `take(array, position)` for every block until the end, `position` being that of the next
sample; it returns an `Account`.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from types import ModuleType

_MODULES = {name: f"system_{name}" for name in ("tallycast", "ecal", "pyzmq", "numpy", "pipe")}


def module_of(system: str) -> ModuleType:
    """Returns the module that sends and reads with a system; a suffix, as in `pyzmq-tcp`, is for the module."""
    return importlib.import_module(_MODULES[system.split("-")[0]])


@dataclass(frozen=True)
class Account:
    """Outcome of the samples sent since the reader joined. Each term is counted independently."""

    sent: int
    delivered: int
    lost: dict[str, int] = field(default_factory=dict)

    def check(self) -> None:
        """Rejects figures whose account does not close."""
        if self.sent != self.delivered + sum(self.lost.values()):
            raise ArithmeticError(f"the account does not close: {self}")
