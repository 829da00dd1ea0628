"""Cyclic apps: a function called at a fixed period with its inputs and outputs, each of them a stream.

The definitions, and what is counted, are those of ``docs/guide/cyclic.md``; how apps are written in Python is in
``docs/guide/python-apps.md``.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Optional, Union

import numpy as np
import numpy.typing as npt

from tallycast import _core
from tallycast._app_report import AppReport, Histogram, InputReport, OutputReport, report_of
from tallycast._duration import Duration, nanoseconds
from tallycast._errors import ConfigError, NoSample, UnknownPort, of_arguments
from tallycast._parameters import Change, Declarations, Outcome, Parameter, Parameters, Steered, of_declarations, plan_of
from tallycast._samples import as_samples
from tallycast._schema import _NUMPY, Channel, Channels, Schema, declared

__all__ = ["App", "AppReport", "Cycle", "Histogram", "Input", "InputReport", "Output", "OutputReport", "Received", "app"]


@dataclass(frozen=True)
class Input:
    """An input of an app: the stream of that name, from any publisher and of any type.

    With ``take="all"`` a cycle gets every sample that came since the last one; with ``"newest"`` the newest of them.
    """

    stream: str
    take: str = "newest"

    @of_arguments()
    def __post_init__(self) -> None:
        if self.take not in ("newest", "all"):
            raise ConfigError(f'take={self.take!r} is not known\nchoose "newest" or "all"')


@dataclass(frozen=True)
class Output:
    """An output of an app: a stream of one sample per cycle.

    ``channels`` and ``dtype`` are written as for ``tc.Publisher``; without channels there is one, called ``value``.
    """

    stream: str
    channels: Channels = None
    dtype: npt.DTypeLike = "f8"


class Received:
    """An input as a cycle found it."""

    __slots__ = ("_elements", "_indices", "_newest", "_times", "age_ns", "freshness", "lost_elements", "schema")

    #: ``"new"``, ``"late"`` (new, but a newer one was due), ``"held"`` (none was due) or ``"missed"``.
    freshness: str
    #: Age of the newest sample when the cycle was due; ``None`` before the first sample.
    age_ns: Optional[int]
    #: Elements lost since the last cycle, as far as known.
    lost_elements: int
    #: Schema of the samples; ``None`` before the first sample.
    schema: Optional[Schema]

    def __init__(self, told: Sequence[Any], schema: Optional[Schema]) -> None:
        self.freshness, self.age_ns, self.lost_elements, _, self._newest, self._indices, self._times, self._elements = told
        self.schema = schema

    @property
    def is_new(self) -> bool:
        """True if a sample arrived since the last cycle."""
        return self.freshness in ("new", "late")

    @property
    def newest(self) -> Optional[npt.NDArray[Any]]:
        """The newest sample, new or not; ``None`` while nothing has come.

        Shape: ``[channels]``, or that of the channel where there is only one and it has a shape. Not writable.
        """
        if self._newest is None or self.schema is None:
            return None
        sample: npt.NDArray[Any] = _array(self.schema, self._newest[2])[0]
        return sample

    @property
    def newest_index(self) -> Optional[int]:
        """The index of the newest sample; of another app's output the cycle that wrote it."""
        return None if self._newest is None else int(self._newest[0])

    @property
    def newest_time_ns(self) -> Optional[int]:
        """Time of the newest sample."""
        return None if self._newest is None else int(self._newest[1])

    @property
    def samples(self) -> npt.NDArray[Any]:
        """The samples that came since the last cycle, oldest first: all, or the newest, as the input takes them.

        Shape: ``[samples, channels]``, or ``[samples, *shape]``. Not writable.
        """
        if self.schema is None:
            return np.empty((0, 0))
        return _array(self.schema, self._elements)

    @property
    def indices(self) -> npt.NDArray[np.uint64]:
        """The index of each of ``samples``."""
        return np.frombuffer(self._indices, np.uint64)

    @property
    def times(self) -> npt.NDArray[np.int64]:
        """Times of ``samples``, in nanoseconds since 1970 UTC."""
        return np.frombuffer(self._times, np.int64)

    def __getitem__(self, channel: str) -> Any:
        """The newest value of a channel, as it is on the wire; an array where the channel has a shape."""
        if self._newest is None or self.schema is None:
            raise NoSample("no sample has arrived yet\ncheck `newest is None` first")
        elements = np.frombuffer(self._newest[2], self.schema.dtype)[self.schema.place(channel)]
        shape = self.schema.channel(channel).shape
        return elements.reshape(shape) if shape else elements[0]

    def __repr__(self) -> str:
        return f"<Received {self.freshness}, newest {self.newest!r}>"


class Cycle:
    """One call of an app's function: inputs are read and outputs written by their names.

    ``cycle.torque = 400 * cycle.pedal.newest``, or ``cycle["torque"] = …`` where a name is not an identifier. The last
    assignment to an output counts; an output without one, or with ``None``, is a hole of stage ``source``.
    """

    __slots__ = ("_outputs", "_received", "_stopped", "_written", "changes", "index", "parameters", "time_ns")

    #: Number of the cycle, from 0; skipped ones are counted too.
    index: int
    #: Time at which it was due: a whole multiple of the period in UTC, plus the app's phase.
    time_ns: int
    #: The parameters as they are in this cycle.
    parameters: Parameters
    #: Changes of parameters with which this cycle began: its sample is the first with them.
    changes: Sequence[Change]

    def __init__(
        self,
        index: int,
        time_ns: int,
        received: Mapping[str, Received],
        outputs: Mapping[str, Schema],
        parameters: Parameters,
        changes: Sequence[Change],
    ) -> None:
        hold = functools.partial(object.__setattr__, self)
        hold("index", index)
        hold("time_ns", time_ns)
        hold("parameters", parameters)
        hold("changes", changes)
        hold("_received", received)
        hold("_outputs", outputs)
        hold("_written", {})
        hold("_stopped", False)

    def stop(self) -> None:
        """Makes this cycle the last."""
        object.__setattr__(self, "_stopped", True)

    def __getitem__(self, name: str) -> Received:
        received: Mapping[str, Received] = self._received
        if name not in received:
            raise UnknownPort(f"`{name}` is not an input of this app\nits inputs are {_listed(received)}")
        return received[name]

    def __setitem__(self, name: str, value: Any) -> None:
        schema = self._outputs.get(name)
        if schema is None:
            raise UnknownPort(f"`{name}` is not an output of this app\nits outputs are {_listed(self._outputs)}")
        self._written[name] = None if value is None else _sample(name, schema, value)

    def __getattr__(self, name: str) -> Any:
        return self[name]

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value


#: Function of a cyclic app.
AppFunction = Callable[[Cycle], object]


class App:
    """A cyclic app before it runs; made by the decorator ``tc.app``. Calling it calls its function."""

    @of_arguments()
    def __init__(
        self,
        function: AppFunction,
        name: str,
        *,
        period: Duration,
        phase: Duration,
        inputs: Mapping[str, Union[str, Input]],
        outputs: Mapping[str, Union[str, Output]],
        parameters: Declarations,
        pin_to: Optional[int],
        fifo: Optional[int],
    ) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.name = name
        self.period_ns = nanoseconds(period)
        self.phase_ns = nanoseconds(phase)
        self.inputs = {key: Input(it) if isinstance(it, str) else it for key, it in inputs.items()}
        self.outputs = {key: Output(it) if isinstance(it, str) else it for key, it in outputs.items()}
        self.parameters = of_declarations(parameters)
        self.pin_to = pin_to
        self.fifo = fifo
        _check_names(self.inputs, self.outputs)
        self._plans = {key: _output_plan(it) for key, it in self.outputs.items()}
        self._schemas = {key: _schema(plan) for key, plan in self._plans.items()}

    def __call__(self, cycle: Cycle) -> object:
        return self.function(cycle)

    def parameter(
        self,
        name: str,
        value: npt.ArrayLike,
        *,
        dtype: Optional[npt.DTypeLike] = None,
        unit: str = "",
        range: Optional[tuple[Optional[float], Optional[float]]] = None,
        greatest_step: Optional[float] = None,
        lease: Optional[str] = None,
        administered: bool = False,
    ) -> None:
        """Adds a parameter, as the argument ``parameters`` of ``tc.app`` does."""
        if name in self.parameters:
            raise ConfigError(f"two parameters are named `{name}`\ngive one of them another name")
        made = of_declarations({name: Parameter(value, dtype, unit, range, greatest_step, lease, administered)})
        self.parameters.update(made)

    def run(
        self,
        *,
        cycles: Optional[int] = None,
        duration: Optional[Duration] = None,
        log: Union[str, os.PathLike[str], None] = None,
        listen: Optional[str] = None,
        key: Union[str, os.PathLike[str], None] = None,
        bus: Optional[str] = None,
        station: Optional[str] = None,
    ) -> AppReport:
        """Calls the function at every due time; returns when all streams are closed.

        It ends with ``cycles`` cycles that ran, with the last cycle that is due within ``duration``, with
        ``cycle.stop()``, or with Ctrl-C (``report.interrupted``); a second Ctrl-C raises ``KeyboardInterrupt`` where the
        function is. The function runs on a thread of the app, and holds the interpreter while it runs.

        An app with parameters writes the log of commands to the file ``log``, by default
        ``$XDG_STATE_HOME/tallycast/steer/NAME.log``, and takes commands at the address ``listen``, by default the first free
        port from 7410 of ``127.0.0.1``. With ``key``, the station's file of keys, it takes commands over secured connections
        of the peers that the file lists; other addresses than loopback need it.

        Raises:
            Whatever the function raises, with the report until then as its attribute ``report``.
            ConfigError: if the app cannot be: a name, a period, a phase, a parameter.
            SteeringError: if it cannot be steered: the log, the address.
        """
        if cycles is not None and cycles < 1:
            raise ConfigError(f"invalid number of cycles: {cycles}\nuse 1 or more")
        plan = {
            "name": self.name,
            "period_ns": self.period_ns,
            "phase_ns": self.phase_ns,
            "pin_to": self.pin_to,
            "fifo": self.fifo,
            "inputs": [{"stream": it.stream, "all": it.take == "all"} for it in self.inputs.values()],
            "outputs": list(self._plans.values()),
            "steering": plan_of(self.parameters, log, listen, key),
            "cycles": cycles,
            "duration_ns": None if duration is None else nanoseconds(duration),
        }
        step = _Step(self.function, list(self.inputs), self._schemas, Steered(self.parameters))
        told, raised, interrupted = _core.run_app(bus, station, plan, step, _interrupt)
        report = report_of(json.loads(told), self.inputs, self.outputs, interrupted)
        if raised is not None:
            raised.report = report
            raise raised
        return report


def app(
    name: str,
    *,
    period: Duration = "10ms",
    phase: Duration = 0,
    inputs: Optional[Mapping[str, Union[str, Input]]] = None,
    outputs: Optional[Mapping[str, Union[str, Output]]] = None,
    parameters: Optional[Declarations] = None,
    pin_to: Optional[int] = None,
    fifo: Optional[int] = None,
) -> Callable[[AppFunction], App]:
    """Makes a cyclic app of a function.

    >>> import tallycast as tc
    >>> @tc.app("vehicle/engine", inputs={"pedal": "driver/pedal"}, outputs={"torque": tc.Output("engine/torque", {"torque": "Nm"})})
    ... def engine(cycle):
    ...     if cycle.pedal.newest is not None:
    ...         cycle.torque = 400 * cycle.pedal.newest
    >>> engine.name, engine.period_ns
    ('vehicle/engine', 10000000)

    Args:
        name: Name of the app; its status stream is ``apps/NAME``.
        period: Time from one cycle to the next, at least 50 µs. Cycles begin at whole multiples of it in UTC.
        phase: Delay of a cycle after the whole multiple; less than the period.
        inputs: Name to stream, or to ``tc.Input``.
        outputs: Name to stream (one channel ``value`` of ``f8``), or to ``tc.Output``.
        parameters: Name to the value with which it begins, or to ``tc.Parameter``; others change them by ``tc.steer``.
        pin_to: The processor to run on.
        fifo: Run before everything that is not real-time (``SCHED_FIFO``), priority 1 to 99.
    """

    def decorate(function: AppFunction) -> App:
        return App(
            function,
            name,
            period=period,
            phase=phase,
            inputs={} if inputs is None else inputs,
            outputs={} if outputs is None else outputs,
            parameters={} if parameters is None else parameters,
            pin_to=pin_to,
            fifo=fifo,
        )

    return decorate


class _Step:
    """Function called by the core in every cycle."""

    def __init__(
        self, function: AppFunction, inputs: Sequence[str], outputs: Mapping[str, Schema], steered: Steered
    ) -> None:
        self._function = function
        self._inputs = inputs
        self._outputs = outputs
        self._steered = steered
        self._schemas: list[Optional[Schema]] = [None] * len(inputs)

    def __call__(
        self, index: int, time_ns: int, inputs: Sequence[Sequence[Any]], changes: Sequence[tuple[int, bytes, bytes, str]]
    ) -> tuple[list[Optional[bytes]], bool, list[Outcome]]:
        received = {}
        for place, (name, told) in enumerate(zip(self._inputs, inputs)):
            if told[3] is not None:
                self._schemas[place] = told[3]
            received[name] = Received(told, self._schemas[place])
        came = self._steered.step(changes)
        cycle = Cycle(index, time_ns, received, self._outputs, self._steered.values, came)
        self._function(cycle)
        written = cycle._written
        return [written.get(name) for name in self._outputs], cycle._stopped, self._steered.done()


def _interrupt(thread: int) -> None:
    """Lets ``KeyboardInterrupt`` be raised in another thread, as soon as it runs Python."""
    raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
    raise_in(ctypes.c_ulong(thread), ctypes.py_object(KeyboardInterrupt))


def _output_plan(output: Output) -> dict[str, Any]:
    dtype, channels, labels = declared(output.channels, output.dtype)
    if labels:
        raise ConfigError(
            f"the fields of the output {output.stream} have several dtypes\n"
            "use one dtype, or write them to separate outputs"
        )
    plain = [(c.name, c.unit, list(c.shape), c.scale, c.offset) for c in channels]
    return {"stream": output.stream, "dtype": dtype, "channels": plain or [("value", "", [], 1.0, 0.0)]}


def _schema(plan: Mapping[str, Any]) -> Schema:
    channels = (Channel(unit, tuple(shape), scale, offset, name) for name, unit, shape, scale, offset in plan["channels"])
    # Only the shape of a sample is asked of it: the rate is the app's.
    return Schema(np.dtype(_NUMPY[plan["dtype"]]), Fraction(1), tuple(channels))


def _sample(name: str, schema: Schema, value: Any) -> bytes:
    if isinstance(value, Mapping):
        value = {channel: np.asanyarray(of)[np.newaxis] for channel, of in value.items()}
    array, missing = as_samples(schema, value)
    if len(array) != 1:
        raise ConfigError(f"{len(array)} samples were written to `{name}`\nan output takes one per cycle")
    if missing:
        raise ConfigError(f"the sample written to `{name}` is masked\nleave the output out in this cycle")
    return array.tobytes()


def _array(schema: Schema, elements: bytes) -> npt.NDArray[Any]:
    return np.frombuffer(elements, schema.dtype).reshape(-1, *schema.sample_shape)


def _check_names(inputs: Mapping[str, object], outputs: Mapping[str, object]) -> None:
    for name in (*inputs, *outputs):
        if hasattr(Cycle, name):
            raise ConfigError(f"`{name}` is a reserved name of a cycle\ngive the input or output another name")
    both = set(inputs) & set(outputs)
    if both:
        raise ConfigError(f"`{min(both)}` is an input and an output\ngive one of them another name")


def _listed(names: Mapping[str, object]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"
