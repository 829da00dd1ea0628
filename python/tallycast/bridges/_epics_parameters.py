"""PVs as parameters of an app: a command is written to the PV, and answered with the value that the PV then has.

Each app has a loop of its own: at every step it writes what was commanded, reads the PVs, and publishes their values as one
sample of the stream ``APP/parameters``. A PV that other clients write to changes there, and so does the parameter: the
greatest step is measured from the value that was read last.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Optional, Protocol

import numpy as np

import tallycast as tc

from tallycast._parameters import LAW

from . import _entries, _run
from ._entries import Entry

PARAMETER_KEYS = frozenset({"pv", "app", "name", "unit", "min", "max", "greatest_step", "lease", "administered"})
#: Steps a second: how often commands are taken, and the PVs read.
STEPS_PER_SECOND = 10


class Client(Protocol):
    """A client of PVs: Channel Access or PV Access."""

    def put(self, pv: str, value: Any, done: Callable[[Optional[str]], None]) -> None:
        """Writes a value; ``done`` gets None or why not."""

    def get(self, pv: str) -> Any:
        """Returns the present value, or None if there is no answer."""


class ParameterPv:
    """A PV that is a parameter."""

    def __init__(self, entry: Entry, client: Client, pv: str) -> None:
        self.entry = entry
        self.name = str(entry["name"])
        self._client = client
        self._pv = pv

    def read(self) -> Optional[np.ndarray[Any, np.dtype[np.float64]]]:
        """Returns the present value; None without an answer."""
        value = self._client.get(self._pv)
        try:
            return None if value is None else np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            pv = self.entry["pv"]
            raise tc.ConfigError(f"{pv} has the value {value!r}, which is no number\nonly numbers can be parameters") from None

    def declared(self, value: Any) -> tc.Parameter:
        """Returns the declaration of a parameter that begins with a value."""
        entry = self.entry
        return tc.Parameter(
            value,
            dtype="f8",
            unit=str(entry.get("unit", "")),
            range=(entry.get("min"), entry.get("max")),
            greatest_step=entry.get("greatest_step"),
            lease=entry.get("lease"),
            administered=bool(entry.get("administered", False)),
        )

    def apply(self, change: tc.Change) -> None:
        """Writes a change, and says what became of it.

        The PV is read over the connection over which it was written, so an unchanged value means that nothing was written.
        """
        answers: queue.SimpleQueue[Optional[str]] = queue.SimpleQueue()
        value = np.asarray(change.value)
        self._client.put(self._pv, value if value.ndim else value.item(), answers.put)
        why = answers.get()
        now = self.read()
        if now is None or now.shape != value.shape:
            change.uncertain()
        elif why is not None and np.array_equal(now, np.asarray(change.before)):
            change.failed(why)
        else:
            change.read_back(now)


class SteeredApp(threading.Thread):
    """An app whose parameters are PVs."""

    def __init__(
        self,
        app: str,
        pvs: Sequence[ParameterPv],
        reporter: _run.Reporter,
        *,
        bus: Optional[str],
        station: Optional[str],
        when_failed: Callable[[], None],
    ) -> None:
        super().__init__(name=f"tallycast-{app}", daemon=True)
        self.app = app
        self._when_failed = when_failed
        self.failure: Optional[BaseException] = None
        self._pvs = list(pvs)
        self._place: dict[str, Any] = {"bus": bus, "station": station}
        self._reporter = reporter
        self._stopping = _run.Stopping()
        self._totals: dict[str, Any] = {}

    def run(self) -> None:
        """Takes commands until the end."""
        try:
            values = self._first_values()
            if values is not None:
                self._steer(values)
        except BaseException as error:
            self.failure = error
            self._when_failed()

    def stop(self) -> None:
        """Ends it after the step that runs."""
        self._stopping.set()

    def account(self) -> dict[str, Any]:
        """Returns the account of its commands, once it has ended."""
        totals = self._totals
        received, *outcomes = (totals.get(term, 0) for term in LAW)
        balanced = received == sum(outcomes)
        return {"way": "steer", "peer": self.app, "stream": f"steer/{self.app}", **totals, "balanced": balanced}

    def _first_values(self) -> Optional[list[Any]]:
        """Waits until all PVs have answered."""
        is_said = False
        while not self._stopping.is_set():
            values = [pv.read() for pv in self._pvs]
            missing = [pv.entry["pv"] for pv, value in zip(self._pvs, values) if value is None]
            if not missing:
                return values
            if not is_said:
                text = f"no answer for {', '.join(missing)}: waiting\ncheck that their IOC is running"
                self._reporter.say("away", text, app=self.app)
            is_said = True
        return None

    def _steer(self, values: list[Any]) -> None:
        units = [str(pv.entry.get("unit", "")) for pv in self._pvs]
        channels = {pv.name: tc.Channel(unit, value.shape) for pv, unit, value in zip(self._pvs, units, values)}
        declared = {pv.name: pv.declared(value[()]) for pv, value in zip(self._pvs, values)}
        by_name = {pv.name: pv for pv in self._pvs}
        stream = f"{self.app}/parameters"
        with tc.Publisher(stream, channels, "f8", rate=STEPS_PER_SECOND, own_times=True, **self._place) as publisher:
            steering = tc.steering(self.app, declared, epoch=publisher.epoch, **self._place)
            try:
                self._reporter.say("steered", f"{', '.join(by_name)} at {steering.address}", app=self.app)
                while not self._stopping.is_set():
                    time_ns = tc.now_ns()
                    for change in steering.step(publisher.next_index, time_ns):
                        by_name[change.parameter].apply(change)
                    readings = [pv.read() for pv in self._pvs]
                    publisher.send(_sample(values, readings), times=[time_ns])
                    steering.done()
                    for pv, known, now in zip(self._pvs, values, readings):
                        if now is not None and now.shape == known.shape and np.isfinite(now).all():
                            steering.read_back(pv.name, now)
                    self._stopping.wait(1 / STEPS_PER_SECOND)
            finally:
                self._totals = steering.close()


def _sample(values: Sequence[Any], readings: Sequence[Any]) -> Any:
    """Returns the PVs' values as a sample; one that did not answer is NaN."""
    parts = []
    for known, now in zip(values, readings):
        parts.append(np.full(known.shape, np.nan) if now is None or now.shape != known.shape else now)
    return np.concatenate([part.ravel() for part in parts])[np.newaxis]


class Steered(_run.Direction):
    """All apps whose parameters are PVs."""

    def __init__(self, apps: Sequence[SteeredApp]) -> None:
        self._apps = apps
        for app in apps:
            app.start()

    def finish(self) -> None:
        """Ends the apps."""
        for app in self._apps:
            app.stop()
        for app in self._apps:
            app.join()

    def accounts(self) -> list[dict[str, Any]]:
        """Returns the accounts of their commands."""
        return [app.account() for app in self._apps]

    def failure(self) -> BaseException | None:
        """Returns the error that ended one of them early."""
        return next((app.failure for app in self._apps if app.failure is not None), None)


def check(entries: Sequence[Entry]) -> None:
    """Refuses entries that are no parameters, or two of one name."""
    _entries.required("parameter", entries, "pv", "app", "name")
    names = [(entry["app"], entry["name"]) for entry in entries]
    for app, name in names:
        if names.count((app, name)) > 1:
            raise tc.ConfigError(f"the app `{app}` has two parameters `{name}`\ngive each a name of its own")


def of_text(source: str) -> Entry:
    """Reads ``APP:NAME``."""
    app, sign, name = source.rpartition(":")
    if not (app and sign and name):
        raise tc.ConfigError(f"`{source}` is no parameter of an app\nwrite it as APP:NAME, such as lab/magnet:current")
    return {"app": app, "name": name}
