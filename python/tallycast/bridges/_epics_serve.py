"""Sinks that are process variables: served by a soft IOC or by p4p, or those of others that are written to."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ._run import Reporter, needed
from ._thinner import Thinned

MINOR, INVALID = 1, 3


@dataclass(frozen=True)
class Served:
    """A PV of ours."""

    pv: str
    #: One of `_softioc.TYPES`.
    type: str = "double"
    #: Elements of a waveform; None for a scalar.
    length: int | None = None
    unit: str | None = None


class IocProcess:
    """The soft IOC; when it dies, another one is started with the next update, and knows the newest values again."""

    def __init__(self, served: Sequence[Served], reporter: Reporter) -> None:
        needed("softioc", "epics")
        self._served = served
        self._reporter = reporter
        self._newest: dict[str, dict[str, Any]] = {}
        self._process = self._start()

    @property
    def pid(self) -> int:
        """The process that serves."""
        return self._process.pid

    def put(self, update: dict[str, Any]) -> None:
        """Serves an update."""
        self._newest[update["pv"]] = update
        if self._process.poll() is None and self._write(update):
            return
        self._reporter.say("restarted", f"the soft IOC has ended ({self._process.poll()}): restarting it")
        self._reap()
        self._process = self._start()
        for each in self._newest.values():
            self._write(each)

    def close(self) -> None:
        """Ends the IOC."""
        self._reap()

    def _write(self, update: dict[str, Any]) -> bool:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(update) + "\n")
            self._process.stdin.flush()
        except OSError:
            return False
        return True

    def _reap(self) -> None:
        try:
            self._process.communicate(timeout=5)
        except (subprocess.TimeoutExpired, OSError, ValueError):
            self._process.kill()
            self._process.wait()

    def _start(self) -> subprocess.Popen[str]:
        # A separate session: Ctrl-C is for the bridge, which ends the IOC after the last value.
        process = subprocess.Popen(
            [sys.executable, "-m", "tallycast.bridges._softioc"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert process.stdin is not None and process.stdout is not None
        specs = [{"pv": it.pv, "type": it.type, "length": it.length, "unit": it.unit} for it in self._served]
        try:
            process.stdin.write(json.dumps(specs) + "\n")
            process.stdin.flush()
        except OSError:
            pass
        if process.stdout.readline().strip() != "ready":
            import tallycast as tc

            process.kill()
            process.wait()
            raise tc.BridgeError(
                "the soft IOC did not start; its output is above\ntry `--server pva`, which needs no IOC"
            )
        return process


class PvServer(Protocol):
    """Server of PVs."""

    def put(self, update: dict[str, Any]) -> None:
        """Serves an update: ``pv``, ``value`` or None, ``t_ns``, ``severity``, ``unit`` or None, ``why``."""
        ...

    def close(self) -> None:
        """Ends serving."""
        ...


class P4pServer:
    """PVs served by p4p: PV Access only, without an IOC."""

    CODES = {"double": "d", "float": "f", "long": "i", "int64": "l", "short": "h", "char": "B"}

    def __init__(self, served: Sequence[Served]) -> None:
        self._nt = needed("p4p.nt", "epics")
        thread = needed("p4p.server.thread", "epics")
        server = needed("p4p.server", "epics")
        self._pvs: dict[str, Any] = {}
        for it in served:
            kind = self._nt.NTScalar(("a" if it.length else "") + self.CODES[it.type], display=True)
            initial: Any = np.zeros(0, dtype=self.CODES[it.type]) if it.length else 0
            pv = thread.SharedPV(nt=kind)
            pv.open(initial, severity=INVALID, message="no sample yet")
            if it.unit:
                pv.post({"display.units": it.unit})
            self._pvs[it.pv] = pv
        self._server = server.Server(providers=[self._pvs])

    def put(self, update: dict[str, Any]) -> None:
        """Serves an update."""
        seconds, nanoseconds = divmod(update["t_ns"], 1_000_000_000)
        fields = {
            "alarm.severity": update["severity"],
            "alarm.status": 6 if update["severity"] else 0,
            "alarm.message": update["why"],
            "timeStamp.secondsPastEpoch": seconds,
            "timeStamp.nanoseconds": nanoseconds,
        }
        if update["unit"] is not None:
            fields["display.units"] = update["unit"]
        if update["value"] is not None:
            value = update["value"]
            fields["value"] = np.asarray(value) if isinstance(value, list) else value
        self._pvs[update["pv"]].post(fields)

    def close(self) -> None:
        """Ends serving."""
        self._server.stop()


class ServedSink:
    """A PV of ours as the sink of a route.

    A value with a hole before it has severity MINOR; without a stream the PV is INVALID and keeps its newest value.
    """

    def __init__(self, served: Served, server: PvServer, reporter: Reporter, stream: str) -> None:
        self.name = served.pv
        self._served = served
        self._server = server
        self._reporter = reporter
        self._stream = stream
        self._unit: str | None = served.unit
        self._t_ns = 0
        self._refused: str | None = None

    def ready(self) -> bool:
        """Always: the PV takes the newest value."""
        return True

    def put(self, output: Thinned, unit: str, why: str) -> None:
        """Serves the output."""
        self._t_ns = output.t_ns
        changed = None if self._served.unit is not None or unit == self._unit else unit
        self._unit = unit if changed is not None else self._unit
        value, refused = None, None
        if output.value is not None:
            value, refused = plain_value(output.value, self._served)
        if refused is not None and refused != self._refused:
            self._reporter.say("refused", refused, stream=self._stream, peer=self.name)
        self._refused = refused
        severity = INVALID if refused or output.value is None else MINOR if why else 0
        self._server.put(
            {
                "pv": self.name,
                "value": value,
                "t_ns": output.t_ns,
                "severity": severity,
                "unit": changed,
                "why": refused or why,
            }
        )

    def account(self) -> dict[str, Any]:
        """Has nothing to add: a PV of ours takes everything."""
        return {}

    def gone(self, why: str) -> None:
        """Marks the PV as INVALID."""
        self._server.put(
            {"pv": self.name, "value": None, "t_ns": self._t_ns, "severity": INVALID, "unit": None, "why": why}
        )


def plain_value(value: np.ndarray[Any, Any], served: Served) -> tuple[Any, str | None]:
    """Returns a number or a list for a PV, or why it cannot hold the value."""
    if value.dtype.kind not in "biuf":
        return None, f"a PV cannot hold {value.dtype}"
    flat = value.reshape(-1)
    if served.length is None:
        if flat.size != 1:
            return None, f"a sample has {flat.size} elements and the PV one\nserve it with `length = {flat.size}`"
    elif flat.size > served.length:
        return (
            None,
            f"a sample has {flat.size} elements and the PV {served.length}\nserve it with `length = {flat.size}`",
        )
    if served.type in {"double", "float"}:
        plain = [float(it) for it in flat]
    else:
        if value.dtype.kind == "f" and not bool(np.all(np.mod(flat, 1) == 0)):
            return (
                None,
                f'the values have fractions and the PV is of type {served.type}\nserve it with `type = "double"`',
            )
        low, high = {
            "long": (-(2**31), 2**31 - 1),
            "int64": (-(2**63), 2**63 - 1),
            "short": (-(2**15), 2**15 - 1),
            "char": (0, 255),
        }[served.type]
        plain = [int(it) for it in flat]
        if any(not low <= it <= high for it in plain):
            return None, f"a value does not fit into type {served.type}\nserve it with a larger type"
    return (plain[0] if served.length is None else plain), None


class Writer(Protocol):
    """Writer to PVs of other servers: Channel Access or PV Access."""

    def put(self, pv: str, value: Any, done: Any) -> None:
        """Writes; ``done`` gets None or why not."""
        ...


class PutSink:
    """A PV of another server that is written to: one write at a time, the next after the answer."""

    def __init__(self, pv: str, writer: Writer, reporter: Reporter, stream: str) -> None:
        self.name = pv
        self._plain = pv.split("://")[-1]
        self._writer = writer
        self._reporter = reporter
        self._stream = stream
        self._free = threading.Event()
        self._free.set()
        self._failing: str | None = None
        self.failed = 0

    def ready(self) -> bool:
        """Returns whether the previous write was answered."""
        return self._free.is_set()

    def put(self, output: Thinned, unit: str, why: str) -> None:
        """Writes the value; of a hole there is nothing to write."""
        if output.value is None:
            return
        self._free.clear()
        value: Any = output.value if output.value.ndim else output.value.item()
        self._writer.put(self._plain, value, self._done)

    def gone(self, why: str) -> None:
        """Nothing to do: the PV keeps its value. Waits for the last write."""
        self._free.wait(10)

    def account(self) -> dict[str, Any]:
        """Returns how many writes failed."""
        return {"failed": self.failed}

    def _done(self, why: str | None) -> None:
        if why is None:
            if self._failing is not None:
                self._reporter.say("back", "writing works again", stream=self._stream, peer=self.name)
        else:
            self.failed += 1
            if self._failing is None:
                self._reporter.say("away", f"cannot write: {why}", stream=self._stream, peer=self.name)
        self._failing = why
        self._free.set()
