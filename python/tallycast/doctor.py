"""Remedies against losses of this host, as ``tallycast doctor fix`` applies them: measured, and kept only if they helped.

Changes are recorded in the same journal: ``tallycast doctor undo`` undoes them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from tallycast import _core
from tallycast._duration import Duration, nanoseconds

#: One JSON object of ``tallycast doctor fix --json`` (docs/guide/doctor.md).
Step: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Fix:
    """Result of `fix`."""

    #: False if losses without an effective change remain.
    fixed: bool
    #: Everything that was observed, planned and proved.
    steps: list[Step]


def fix(
    consents: Callable[[Step], object] = lambda plan: False,
    *,
    ports: Sequence[int] = (),
    pids: Sequence[int] = (),
    window: Duration = "5s",
    journal: str | os.PathLike[str] | None = None,
) -> Fix:
    """Watches live traffic for ``window``, and applies and measures the change of each plan that ``consents`` accepts.

    By default no change is accepted: the plans are only listed. ``ports`` and ``pids`` choose sockets; without them losses of all are fixed.
    A change takes the privileges that the command takes, and acts on the host and in the network namespace of this process.

    >>> fix(ports=[9], window=0.05).steps[0]["event"]
    'watching'

    Raises:
        DoctorError: if a change could not be made or undone, or the journal cannot be used.
    """
    steps: list[Step] = []
    chosen = None if journal is None else Path(journal)
    fixed = _core.fix(
        list(ports),
        list(pids),
        nanoseconds(window),
        chosen,
        lambda told: steps.append(json.loads(told)),
        lambda: consents(steps[-1]),
    )
    return Fix(fixed, steps)
