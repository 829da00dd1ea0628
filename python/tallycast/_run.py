"""Runs of the experiment, such as shots: said on the bus and read from archives, by the command `tallycast`."""

from __future__ import annotations

import json
import logging
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tallycast._command import find_command
from tallycast._duration import Duration, nanoseconds
from tallycast._errors import ArgumentError, CommandError, NotStored, of_arguments

_log = logging.getLogger("tallycast")


@dataclass(frozen=True)
class StoredRun:
    """A run that an archive knows: a stretch of time with an id and labels."""

    id: str
    #: `open`, `stopped` or `restarted` (it was started again without a stop); `no_start` if only a stop is known.
    state: str
    #: Its start. Units: nanoseconds since 1970 UTC.
    start_ns: int | None
    #: First moment after it; `None` while it is open.
    end_ns: int | None
    labels: Mapping[str, str]
    #: How far the clock of the host that stopped it was at least behind that of the start: the run then ends at its start.
    clock_behind_ns: int = 0

    @property
    def range_ns(self) -> tuple[int, int | None]:
        """Start and end, for `StoredStream.between`; the end of an open run is `None`: the end of what is recorded."""
        if self.start_ns is None:
            raise NotStored(f"run {self.id} was stopped, and its start is not known\nselect its time with absolute times instead")
        return self.start_ns, self.end_ns


class MarkedRun:
    """A run of the experiment that was started here; made by `tallycast.run`."""

    def __init__(self, id: str, labels: Mapping[str, str], wait: str, bus: str | None) -> None:
        #: Its id.
        self.id = id
        #: Its labels.
        self.labels = dict(labels)
        self._more = [word for pair in labels.items() for word in ("--label", "=".join(pair))]
        self._more += ["--wait", wait, *(["--bus", bus] if bus is not None else [])]
        told = _say(["start", id, *self._more])
        #: Its start. Units: nanoseconds since 1970 UTC.
        self.start_ns = int(told["time_ns"])
        #: Its end, once it was stopped.
        self.end_ns: int | None = None
        #: Number of readers that heard of its start; 0: neither a recorder nor a monitor knows it.
        self.readers = int(told["readers"])

    def stop(self) -> MarkedRun:
        """Stops it, unless it was stopped before; returns the run itself."""
        if self.end_ns is None:
            told = _say(["stop", self.id, "--started", str(self.start_ns), *self._more])
            self.end_ns = int(told["time_ns"])
        return self

    def __enter__(self) -> MarkedRun:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<MarkedRun {self.id}, {'open' if self.end_ns is None else 'stopped'}>"


@of_arguments()
def run(id: str, labels: Mapping[str, str] | None = None, *, wait: Duration = "3s", bus: str | None = None) -> MarkedRun:
    """Starts a run of the experiment, as ``tallycast run start`` does; it is stopped by ``stop()`` or at the end of the ``with`` block.

    Waits for a reader at most as long as ``wait`` says. Monitors and recorders keep the run for readers that come later.

        with tc.run("shot-17", labels={"program": "ohmic"}):
            measure()

    Raises:
        CommandError: if the command is not found, or cannot reach the bus.
        ArgumentError: if id or labels are not valid.
    """
    texts = {str(key): str(value) for key, value in (labels or {}).items()}
    if any("=" in key for key in texts):
        raise ArgumentError("a key of a label has no `=`\nwrite one word of letters, digits, `_`, `-` and `.`")
    return MarkedRun(id, texts, f"{nanoseconds(wait)}ns", bus)


def stored_runs(path: str | os.PathLike[str]) -> list[StoredRun]:
    """Returns the runs that an archive knows, by their start."""
    return [_stored(told) for told in _ask(["run", "list", "--archive", os.fspath(path), "--json"])]


def stored_run(path: str | os.PathLike[str], id: str) -> StoredRun:
    """Returns the run of this id, or of `ID@TIME` the one that was open at this time."""
    found = [_stored(told) for told in _ask(["run", "show", "--archive", os.fspath(path), "--json", "--", id])]
    if not found:
        raise NotStored(f"no run {id} is known in {path}\nlist the runs: archive.experiment_runs")
    if len(found) > 1:
        raise NotStored(f"{len(found)} runs have the id {id}\nadd a moment in the one that is meant: '{id}@2026-11-28T13:00:00Z'")
    return found[0]


def _stored(told: dict[str, Any]) -> StoredRun:
    return StoredRun(told["id"], told["state"], told["start_ns"], told["end_ns"], told["labels"], told["clock_behind_ns"])


def _say(arguments: list[str]) -> dict[str, Any]:
    found = _ask(["run", arguments[0], "--json", *arguments[2:], "--", arguments[1]])
    return found[0]


def _ask(arguments: list[str]) -> list[dict[str, Any]]:
    """Runs the command, and returns the objects that it prints; code 1 is no error: it has said something."""
    path = find_command()
    try:
        done = subprocess.run([path, *arguments], stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", errors="replace", check=False)
    except OSError as error:
        raise CommandError(f"cannot run {path}: {error.strerror}\nname another one with TALLYCAST_BIN") from error
    said = done.stderr.strip()
    if done.returncode not in (0, 1):
        raise CommandError(said.removeprefix("error: ") or f"{path} ended with code {done.returncode}")
    if said:
        _log.warning("%s", said)
    return [json.loads(line) for line in done.stdout.splitlines()]
