"""The sender's end of steering: reads and changes the parameters of a running app.

What becomes of a command, and the rules, are in ``docs/protocol/steering.md``.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Union

import numpy as np
import numpy.typing as npt

from tallycast import _core, _open_handles
from tallycast._duration import Duration, nanoseconds
from tallycast._errors import (
    ArgumentError,
    Error,
    NotApplied,
    SteeringDenied,
    SteeringError,
    SteeringExpired,
    SteeringFailed,
    SteeringRefused,
    SteeringSuperseded,
    SteeringUncertain,
    of_arguments,
)
from tallycast._parameters import converted, number_of, unknown
from tallycast._schema import _NUMPY

__all__ = ["Applied", "Lease", "News", "Remote", "RemoteParameter", "steer"]

#: Interval at which a lease is renewed: a third of its validity, so that two renewals may fail. Units: seconds.
_RENEW_EVERY = 10 / 3
#: Rules that a sender breaks if it knows an earlier declaration of the parameter.
_REDECLARED = ("parameter", "dtype", "shape")


@dataclass(frozen=True, eq=False)
class Applied:
    """Where and how a command took effect."""

    #: Epoch of the app's stream.
    epoch: str
    #: Index of the first sample in which the change is.
    index: int
    #: Revision of the parameter since then.
    revision: int
    #: The value as the app read it back: NumPy's scalar, or an array.
    readback: Any
    #: The command's id, as the app's log has it.
    id: str


@dataclass(frozen=True, eq=False)
class RemoteParameter:
    """A parameter of an app as it stands."""

    name: str
    dtype: np.dtype[Any]
    #: Shape of the value; empty for a single number.
    shape: tuple[int, ...]
    unit: str
    #: Least and greatest value of an element, and its greatest difference to the present one; ``None`` for no limit.
    min: Union[int, float, None]
    max: Union[int, float, None]
    greatest_step: Union[int, float, None]
    #: True if a sender must be allowed to administer the app.
    administered: bool
    #: Group whose lease a sender must hold.
    lease: str | None
    #: NumPy's scalar, or an array that cannot be written.
    value: Any
    #: False after an uncertain command, until the app has read the value back.
    known: bool
    #: Number of changes so far; over all runs of the app.
    revision: int
    #: Holder of the lease, as the rules of access name it.
    holder: str | None


@dataclass(frozen=True, eq=False)
class News:
    """A parameter that changed, or the state of the app; the other one is ``None``."""

    parameter: RemoteParameter | None
    #: The account of the app's commands, as :meth:`Remote.totals`.
    totals: Mapping[str, Any] | None = None
    #: True if a kill switch is on.
    stopped: bool | None = None


class Remote(_core.Remote):
    """A connection to a running app, made by ``tc.steer``: a mapping from the names of its parameters to their values.

    ``remote["gain"]`` asks the app for the value; ``remote["gain"] = 2.0`` sends a command and returns when it is applied. A
    connection may be used by several threads, whose calls wait for each other. Ctrl-C ends a wait; the outcome of a command
    that was under way is then in the app's log alone.
    """

    _known: dict[str, tuple[str, list[int]]]
    _key: str | None

    @property
    def parameters(self) -> dict[str, RemoteParameter]:
        """The app's parameters as they stand now."""
        rows, _ = self._list()
        self._known = {row["name"]: (row["dtype"], row["shape"]) for row in rows}
        return {row["name"]: _parameter(row) for row in rows}

    def totals(self) -> dict[str, Any]:
        """Returns the account of all commands that the app received, as ``Steering.totals``."""
        totals: dict[str, Any] = json.loads(self._list()[1][0])
        return totals

    @property
    def stopped(self) -> bool:
        """True if a kill switch is on: that of this app, or that of all apps."""
        _, (_, app, every) = self._list()
        return app or every

    def __getitem__(self, name: str) -> Any:
        parameters = self.parameters
        if name not in parameters:
            raise unknown(name, parameters)
        found = parameters[name]
        if not found.known:
            raise SteeringError(
                f"the value of `{name}` is not known after an uncertain command\n"
                f"wait until the app has read it back; the last one is parameters[{name!r}].value"
            )
        return found.value

    def __setitem__(self, name: str, value: npt.ArrayLike) -> None:
        self.set(name, value)

    def __iter__(self) -> Iterator[str]:
        return iter(self.parameters)

    def __len__(self) -> int:
        return len(self.parameters)

    @of_arguments()
    def set(
        self,
        name: str,
        value: npt.ArrayLike,
        *,
        reason: str = "",
        if_revision: int | None = None,
        valid: Duration = 2.0,
    ) -> Applied:
        """Sends a command, once, and waits for its outcome.

        The value is converted to the parameter's dtype, which must hold it: only the digits of a float are rounded.
        ``reason``, at most 256 bytes, is for the app's log. With ``if_revision`` the command is refused if the parameter has
        another revision at that moment. ``valid`` is the time within which it may take effect, at most 2 s.

        Raises:
            ConfigError: a value that the parameter's dtype or shape does not hold, a parameter that the app does not have
                (`UnknownParameter`); such a command is not sent.
            NotApplied: it had no effect: `SteeringRefused`, `SteeringExpired`, `SteeringSuperseded`, `SteeringFailed`.
            SteeringUncertain: it may have had an effect.
            SteeringError: the connection has ended; the command was not sent.
        """
        dtype, shape = self._declaration(name)
        elements = converted(value, dtype, shape, f"parameter `{name}`")
        seconds = nanoseconds(valid) / 1e9
        told = self._set(name, dtype, shape, elements, if_revision=if_revision, valid=seconds, reason=reason)
        number, outcome, what, advice, effect = told
        if effect is not None:
            epoch, index, revision, readback = effect
            return Applied(epoch, index, revision, number_of(dtype, shape, readback), number)
        if outcome == "refused" and what in _REDECLARED:
            self._known = {}
        raise _error(name, number, outcome, what, advice)

    def lease(self, group: str, *, take_over: str | None = None) -> Lease:
        """Returns the lease of a group of parameters, which is held within ``with``.

        With ``take_over``, a reason, it is taken from its holder, which an administrator may do.
        """
        return Lease(self, group, take_over)

    def stop(self, reason: str, *, all_apps: bool = False) -> None:
        """Turns the kill switch on, of this app or of all: no command takes effect until it is released."""
        with of_arguments():
            self._switch(all_apps, True, reason)

    def resume(self, reason: str, *, all_apps: bool = False) -> None:
        """Releases the kill switch, which an administrator may do."""
        with of_arguments():
            self._switch(all_apps, False, reason)

    def watch(self, timeout: float | None = None) -> Iterator[News]:
        """Returns the news of the app, over a connection of their own: first every parameter and the state, then changes.

        It ends when ``timeout`` seconds have passed without news; ``None`` is unlimited.
        """
        other = _opened(self.app, self.address, self._key, self._peer, 0.0, None, None)
        other._watch()
        return _news(other, timeout)

    def close(self) -> None:
        """Ends the connection, and with it the session and its leases."""
        self._close()
        _open_handles.closed(self)

    def __enter__(self) -> Remote:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Remote of {self.app} at {self.address}>"

    def _declaration(self, name: str) -> tuple[str, list[int]]:
        if name not in self._known:
            parameters = self.parameters
            if name not in parameters:
                raise unknown(name, parameters)
        return self._known[name]


class Lease:
    """The lease of a group of parameters, held within ``with``.

    It is valid for 10 s, and renewed by a thread every third of that. A call that occupies the connection for longer, such as
    a command without an answer, can end it; so can an administrator. Commands are then refused by the rule ``lease``.
    """

    def __init__(self, remote: Remote, group: str, take_over: str | None) -> None:
        self.group = group
        self._remote = remote
        self._take_over = take_over
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._lost: Error | None = None
        self._renewals = 0

    @property
    def held(self) -> bool:
        """True while it is held, as far as known."""
        return self._thread is not None and self._lost is None

    @property
    def renewals(self) -> int:
        """Number of renewals so far."""
        return self._renewals

    def __enter__(self) -> Lease:
        """Takes the lease.

        Raises:
            SteeringDenied: another session holds it, or no rule of access allows it.
        """
        if self._thread is not None:
            raise SteeringError(f"the lease of `{self.group}` is already taken by this object\nask `lease` for another one")
        with of_arguments():
            self._remote._lease(self.group, self._take_over)
        self._lost = None
        self._over.clear()
        self._thread = threading.Thread(target=self._renew, name=f"lease of {self.group}", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Releases the lease, unless it was lost before."""
        thread, self._thread = self._thread, None
        self._over.set()
        if thread is not None:
            thread.join()
        if self._lost is None and not self._remote.closed:
            try:
                self._remote._release(self.group)
            except SteeringDenied as error:
                # Another session took it over since the last renewal.
                self._lost = error

    def _renew(self) -> None:
        while not self._over.wait(_RENEW_EVERY):
            try:
                self._remote._lease(self.group)
            except Error as error:
                self._lost = error
                return
            self._renewals += 1

    def __repr__(self) -> str:
        return f"<Lease of {self.group}: {'held' if self.held else 'not held'}>"


@of_arguments()
def steer(
    app: str,
    *,
    address: str | None = None,
    key: Union[str, os.PathLike[str], None] = None,
    timeout: float = 5.0,
    bus: str | None = None,
    station: str | None = None,
) -> Remote:
    """Connects to a running app, whose parameters can then be read and changed.

        with tc.steer("sim/engine") as engine:
            engine["gain"] = 2.0
            applied = engine.set("gain", 2.5, reason="warmer", if_revision=engine.parameters["gain"].revision)

    Args:
        app: Name of the app; it is found on the bus by its stream ``steer/APP``.
        address: Where it takes commands, such as ``127.0.0.1:7410``; then the bus is not asked.
        key: The station's file of keys, which lists the app's station: for an app that takes secured connections.
        timeout: Time in which the app must be found. Units: seconds.

    Raises:
        SteeringError: the app was not found, or takes secured connections only.
    """
    if not isinstance(app, str):
        raise ArgumentError(f"{app!r} is not the name of an app\ngive a text such as sim/engine")
    return _opened(app, address, None if key is None else os.fspath(key), None, timeout, bus, station)


def _opened(
    app: str,
    address: str | None,
    key: str | None,
    peer: str | None,
    timeout: float,
    bus: str | None,
    station: str | None,
) -> Remote:
    remote = Remote(app, address=address, key=key, peer=peer, timeout=timeout, bus=bus, station=station)
    remote._known, remote._key = {}, key
    _open_handles.opened(remote)
    return remote


def _news(remote: Remote, timeout: float | None) -> Iterator[News]:
    with remote:
        # After the request to be told of changes, so that none is missed between.
        rows, state = remote._list()
        yield from (News(_parameter(row)) for row in rows)
        yield _state(state)
        while (told := remote._next(timeout)) is not None:
            row, state_or_none = told
            if row is not None:
                yield News(_parameter(row))
            elif state_or_none is not None:
                yield _state(state_or_none)


def _state(told: tuple[str, bool, bool]) -> News:
    totals, app, every = told
    return News(None, json.loads(totals), app or every)


def _parameter(row: Mapping[str, Any]) -> RemoteParameter:
    value = number_of(row["dtype"], row["shape"], row["value"])
    return RemoteParameter(
        **{**row, "dtype": np.dtype(_NUMPY[row["dtype"]]), "shape": tuple(row["shape"]), "value": value}
    )


def _error(name: str, number: str, outcome: str, what: str, advice: str) -> SteeringError:
    """Returns the error for a command that was not applied."""
    error: Union[NotApplied, SteeringUncertain]
    if outcome == "refused":
        reason, _, remedy = advice.partition(": ")
        error = SteeringRefused(f"`{name}` was not changed: {reason} (rule `{what}`)\n{remedy}")
        error.rule = what
    elif outcome == "expired":
        error = SteeringExpired(
            f"`{name}` was not changed: the command's validity ended before a step of the app\ncheck that the app runs, and send another command"
        )
    elif outcome == "never_arrived":
        error = SteeringExpired(f"`{name}` was not changed: the command did not reach the app\nsend another command")
    elif outcome == "superseded":
        error = SteeringSuperseded(
            f"`{name}` was not changed by this command: a later one took its place\nread the value and decide again"
        )
    elif outcome == "failed":
        error = SteeringFailed(f"`{name}` was not changed, the app could not apply the command: {what}\nask the app's owner")
        error.reason = what
    else:
        error = SteeringUncertain(
            f"it is not known whether the command to `{name}` took effect\nread the value, or look the id {number} up in the app's log"
        )
    error.id, error.parameter = number, name
    return error
