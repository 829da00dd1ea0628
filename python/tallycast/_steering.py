"""Steering of a program with a loop of its own: its parameters change at its steps, and nowhere else."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any, Union

import numpy.typing as npt

from tallycast import _core, _open_handles
from tallycast._errors import of_arguments
from tallycast._parameters import Change, Declarations, Parameters, Steered, of_declarations, plan_of

__all__ = ["Steering", "steering"]


class Steering(_core.Steering):
    """The parameters of a running program, made by ``tc.steering``: a mapping from names to present values.

    It is for one thread, that of the loop, which calls :meth:`step` before it computes a sample and :meth:`done` after the
    sample has been published.
    """

    _steered: Steered

    def step(self, index: int, time_ns: int) -> Sequence[Change]:
        """Takes the changes of a step boundary; the new values hold at once.

        It never waits. ``index`` is that of the first sample computed after it, ``time_ns`` that sample's time. Changes of
        a step for which :meth:`done` was not called are uncertain from the next step on.
        """
        return self._steered.step(self._step(index, time_ns))

    def done(self) -> None:
        """Says that the sample of the last step has been published with its changes."""
        self._done(self._steered.done())

    def read_back(self, name: str, value: npt.ArrayLike) -> None:
        """Says which value a parameter has at its device, where others may have changed it.

        The greatest step is measured from there, and the revision rises if it is another value than before. Between
        :meth:`step` and :meth:`done`, the value of a parameter that changes in this step is left as it is.

        Raises:
            ConfigError: a value that the parameter's dtype or shape does not hold, or no parameter of this name
                (`UnknownParameter`).
        """
        with of_arguments():
            told = self._steered.reading(name, value)
            if told is not None:
                self._read_back(*told)

    @property
    def parameters(self) -> Parameters:
        """The present values; the mapping does not change with them."""
        return self._steered.values

    def __getitem__(self, name: str) -> Any:
        return self._steered.values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._steered.values)

    def __len__(self) -> int:
        return len(self._steered.values)

    def totals(self) -> dict[str, Any]:
        """Returns the account of the commands, with the terms of ``docs/protocol/steering.md``; ``refused_by_rule`` has the
        refused ones by rule.

        ``received`` = ``applied`` + ``refused`` + ``expired`` + ``superseded`` + ``failed`` + ``uncertain`` + ``pending``.
        """
        totals: dict[str, Any] = json.loads(self._totals())
        return totals

    def close(self) -> dict[str, Any]:
        """Ends steering: commands that wait have failed, and the log has every outcome. Returns the totals, once."""
        text = self._close()
        _open_handles.closed(self)
        totals: dict[str, Any] = {} if text is None else json.loads(text)
        return totals

    def __enter__(self) -> Steering:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Steering of {self.name} at {self.address}: {', '.join(self)}>"


@of_arguments()
def steering(
    name: str,
    parameters: Declarations,
    *,
    epoch: str,
    log: Union[str, os.PathLike[str], None] = None,
    listen: str | None = None,
    key: Union[str, os.PathLike[str], None] = None,
    bus: str | None = None,
    station: str | None = None,
) -> Steering:
    """Begins to take commands to the parameters of a program with a loop of its own.

        with tc.Publisher("sim/rod/temperature", rate=100, bus=bus) as pub:
            with tc.steering("sim/rod", {"power": tc.Parameter(1.0, unit="kW", range=(0, 5))}, epoch=pub.epoch) as steering:
                while True:
                    now = tc.now_ns()
                    steering.step(pub.next_index, now)
                    pub.send([rod.heat(steering["power"])], t0_ns=now)
                    steering.done()

    Args:
        name: Name of the app, by which ``tc.steer`` finds it.
        parameters: Name to the value with which it begins, or to ``tc.Parameter``.
        epoch: Epoch of the stream whose sample indices ``step`` is given.
        log: File of the log of commands; by default ``$XDG_STATE_HOME/tallycast/steer/NAME.log``.
        listen: Address at which commands are taken, with or without a port; by default the first free port from 7410 of
            ``127.0.0.1``. Others than loopback need ``key``.
        key: The station's file of keys: commands are taken over secured connections of the peers that it lists, whose names
            the rules of access have as ``key:NAME``.

    Raises:
        ConfigError: a name or a parameter that cannot be.
        SteeringError: a log that cannot be written or was changed, an address that is in use.
    """
    declared = of_declarations(parameters)
    plan = plan_of(declared, log, listen, key)
    made = Steering(name, plan, epoch, bus=bus, station=station)
    made._steered = Steered(declared)
    _open_handles.opened(made)
    return made
