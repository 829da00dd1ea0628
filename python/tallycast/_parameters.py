"""Parameters of an app: their declaration, their values as NumPy's, the changes of a step."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional, Union

import numpy as np
import numpy.typing as npt

from tallycast._errors import ArgumentError, ConfigError, UnknownParameter, of_arguments
from tallycast._samples import exact
from tallycast._schema import _NUMPY, declared

__all__ = ["Change", "Parameter", "Parameters"]

#: The first term is the sum of the others: ``docs/protocol/steering.md``, "The law".
LAW = ("received", "applied", "refused", "expired", "superseded", "failed", "uncertain", "pending")
#: What became of a change: its place, ``failed``, ``read`` or ``uncertain``, the reason, the value that was read back.
Outcome = tuple[int, str, str, Optional[bytes]]


@dataclass(frozen=True, eq=False)
class Parameter:
    """A parameter that others may change while the app runs.

    ``value`` is the one with which it begins, a number or an array; ``dtype`` is its dtype unless given: `f8` of a Python
    ``float``, `i64` of an ``int``, `bool` of a ``bool``. ``range`` is the least and the greatest value of an element, either
    of them ``None`` for no limit; ``greatest_step`` limits the difference of an element to its present value. With
    ``lease`` a sender must hold the lease of that group of parameters; with ``administered`` it must be allowed to
    administer the app. ``kept`` is what the app kept with the value, `Change.kept`, or ``unchanged`` if no command has changed
    it so far: then it can tell of every command of the run before whether it took effect.

    >>> Parameter(2.0, unit="V", range=(0, 10), greatest_step=0.5, lease="heating").dtype_name
    'f8'
    """

    value: npt.ArrayLike
    dtype: Optional[npt.DTypeLike] = None
    unit: str = ""
    range: Optional[tuple[Optional[float], Optional[float]]] = None
    greatest_step: Optional[float] = None
    lease: Optional[str] = None
    administered: bool = False
    kept: Optional[str] = None
    #: The declaration as the core reads it.
    _plan: dict[str, Any] = field(init=False, repr=False)

    @of_arguments()
    def __post_init__(self) -> None:
        given = np.asarray(self.value)
        dtype = given.dtype if self.dtype is None else self.dtype
        name = declared(None, dtype)[0]
        array = converted(given, name, given.shape, "the value with which a parameter begins")
        low, high = (None, None) if self.range is None else self.range
        limits = {"min": low, "max": high, "greatest_step": self.greatest_step}
        plan = {
            "dtype": name,
            "shape": list(given.shape),
            "value": array,
            "unit": self.unit,
            **{key: _limit(limit, name) for key, limit in limits.items()},
            "lease": self.lease,
            "administered": bool(self.administered),
            "kept": None if self.kept is None else str(self.kept),
        }
        for text in (self.unit, "" if self.lease is None else self.lease):
            if not isinstance(text, str):
                raise ArgumentError(f"{text!r} is not a text\nname the unit and the group of the lease by texts")
        object.__setattr__(self, "_plan", plan)

    @property
    def dtype_name(self) -> str:
        """Name of the dtype in the protocol."""
        return str(self._plan["dtype"])


#: Parameters by name: with the value with which they begin, or as `Parameter`.
Declarations = Mapping[str, Union[Parameter, npt.ArrayLike]]


def of_declarations(declarations: Declarations) -> dict[str, Parameter]:
    """Returns parameters by name."""
    for name in declarations:
        if not isinstance(name, str):
            raise ArgumentError(f"{name!r} is not the name of a parameter\ngive a text such as gain")
    return {name: it if isinstance(it, Parameter) else Parameter(it) for name, it in declarations.items()}


def plan_of(
    parameters: Mapping[str, Parameter],
    log: Union[str, os.PathLike[str], None] = None,
    listen: Optional[str] = None,
    key: Union[str, os.PathLike[str], None] = None,
) -> dict[str, Any]:
    """Returns the steering of an app as the core reads it."""
    named = [{"name": name, **it._plan} for name, it in parameters.items()]
    files = {name: None if it is None else os.fspath(it) for name, it in {"log": log, "key": key}.items()}
    return {"parameters": named, "listen": listen, **files}


def number_of(dtype: str, shape: Sequence[int], elements: bytes) -> Any:
    """Returns the elements of a value: NumPy's scalar, or an array that cannot be written.

    >>> number_of("f8", [], np.float64(2.5).tobytes())
    np.float64(2.5)
    """
    return np.frombuffer(elements, _NUMPY[dtype]).reshape(tuple(shape))[()]


def converted(value: npt.ArrayLike, dtype: str, shape: Sequence[int], what: str) -> bytes:
    """Returns a value as the elements of a dtype, if it holds them exactly; only the digits of a float are rounded.

    >>> converted(3, "f8", [], "gain") == np.float64(3).tobytes()
    True
    >>> converted(2.5, "i32", [], "parameter `count`")
    Traceback (most recent call last):
    ...
    tallycast._errors.ConfigError: parameter `count` has elements of dtype i32, which hold 2.5 not exactly
    give integers that it holds
    """
    wanted = np.dtype(_NUMPY[dtype])
    given = np.asarray(value)
    if given.dtype.kind not in "biufc":
        raise ArgumentError(f"{what} takes numbers, not {value!r}\ngive a number, or an array of numbers")
    if given.shape != tuple(shape):
        raise ConfigError(f"{what} has the shape {list(shape)}, not {list(given.shape)}\ngive all of its elements")
    # Not as 0 and 1: a switch and a number are different things.
    if (given.dtype.kind == "b") != (wanted.kind == "b"):
        raise ConfigError(f"{what} has elements of dtype {dtype}, not {given.dtype}\ngive {_KINDS[wanted.kind]}")
    try:
        return np.ascontiguousarray(exact(given, wanted)).tobytes()
    except ConfigError:
        raise ConfigError(
            f"{what} has elements of dtype {dtype}, which hold {value!r} not exactly\ngive {_KINDS[wanted.kind]} that it holds"
        ) from None


_KINDS = {"b": "True or False", "i": "integers", "u": "integers", "f": "numbers", "c": "complex numbers"}


def _limit(limit: Optional[float], dtype: str) -> Union[int, float, None]:
    if limit is None:
        return None
    kind = np.dtype(_NUMPY[dtype]).kind
    if kind in "iu":
        if limit != int(limit):
            raise ConfigError(f"{limit!r} limits a parameter of dtype {dtype}\ngive an integer")
        return int(limit)
    return float(limit)


class Parameters(Mapping[str, Any]):
    """The parameters of an app with their present values: NumPy's scalars, or arrays that cannot be written."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise unknown(name, self._values) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"<Parameters {dict(self._values)!r}>"


def unknown(name: object, names: Mapping[str, object]) -> UnknownParameter:
    """Returns the error for a parameter that an app does not have."""
    listed = ", ".join(f"`{it}`" for it in names) or "none"
    return UnknownParameter(f"the app has no parameter {name!r}\nits parameters are {listed}")


class Change:
    """A change of one parameter at a step. It is applied, unless the app says otherwise."""

    __slots__ = ("_outcome", "_parameter", "before", "kept", "parameter", "value")

    #: Name of the parameter.
    parameter: str
    #: The value before.
    before: Any
    #: The new value.
    value: Any
    #: What an app that keeps values over restarts writes with the new one, in one write within the step; its next run gives
    #: it as ``kept`` of the parameter.
    kept: str

    def __init__(self, name: str, parameter: Parameter, before: Any, value: Any, kept: str) -> None:
        self.parameter, self.before, self.value, self.kept = name, before, value, kept
        self._parameter = parameter
        self._outcome: tuple[str, str, Optional[bytes]] = ("", "", None)

    def failed(self, reason: str) -> None:
        """Says that the app could not apply the change, for certain: the value before stays."""
        self._outcome = ("failed", str(reason), None)

    def read_back(self, value: npt.ArrayLike) -> None:
        """Says which value the app read back, such as what a device took."""
        plan = self._parameter._plan
        told = converted(value, plan["dtype"], plan["shape"], f"parameter `{self.parameter}`")
        self._outcome = ("read", "", told)

    def uncertain(self) -> None:
        """Says that the app cannot tell whether the change took effect."""
        self._outcome = ("uncertain", "", None)

    def __repr__(self) -> str:
        return f"<Change of {self.parameter} from {self.before!r} to {self.value!r}>"


class Steered:
    """The values of an app's parameters, kept up with its changes."""

    def __init__(self, parameters: Mapping[str, Parameter]) -> None:
        self._declared = list(parameters.items())
        plans = {name: it._plan for name, it in parameters.items()}
        self.values = Parameters({n: number_of(it["dtype"], it["shape"], it["value"]) for n, it in plans.items()})
        self._changes: list[Change] = []

    def step(self, told: Sequence[tuple[int, bytes, bytes, str]]) -> list[Change]:
        """Takes the changes of a step."""
        if not told and not self._changes:
            return []
        self._changes = [self._change(*it) for it in told]
        self._hold({it.parameter: it.value for it in self._changes})
        return list(self._changes)

    def done(self) -> list[Outcome]:
        """Ends the step; returns what became of its changes."""
        outcomes, held = [], {}
        for place, change in enumerate(self._changes):
            kind, reason, read = change._outcome
            if kind:
                outcomes.append((place, kind, reason, read))
            if kind == "failed":
                held[change.parameter] = change.before
            elif read is not None:
                plan = change._parameter._plan
                held[change.parameter] = number_of(plan["dtype"], plan["shape"], read)
        self._changes = []
        self._hold(held)
        return outcomes

    def reading(self, name: str, value: npt.ArrayLike) -> Optional[tuple[int, bytes]]:
        """Holds a value that was read; returns its place and elements, nothing while the parameter changes."""
        place = next((place for place, (known, _) in enumerate(self._declared) if known == name), None)
        if place is None:
            raise unknown(name, dict(self._declared))
        plan = self._declared[place][1]._plan
        elements = converted(value, plan["dtype"], plan["shape"], f"parameter `{name}`")
        if any(change.parameter == name for change in self._changes):
            return None
        self._hold({name: number_of(plan["dtype"], plan["shape"], elements)})
        return place, elements

    def _change(self, place: int, before: bytes, value: bytes, kept: str) -> Change:
        name, parameter = self._declared[place]
        plan = parameter._plan
        old, new = (number_of(plan["dtype"], plan["shape"], it) for it in (before, value))
        return Change(name, parameter, old, new, kept)

    def _hold(self, changed: Mapping[str, Any]) -> None:
        # Another mapping: one that the app has kept stays as it was.
        if changed:
            self.values = Parameters({**self.values._values, **changed})
