"""The schema of a stream: channels, dtype, rate, labels."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Union, cast

import numpy as np
import numpy.typing as npt

from tallycast._errors import ArgumentError, ConfigError, UnknownChannel

Rate = Union[int, float, str, Fraction]
"""Samples per second: ``48_000``, ``0.5``, ``"48k"``, ``"1000/3"``, ``Fraction(1000, 3)``."""

#: The dtypes of the protocol by their names there.
_NUMPY = {
    "i8": "<i1", "i16": "<i2", "i32": "<i4", "i64": "<i8",
    "u8": "<u1", "u16": "<u2", "u32": "<u4", "u64": "<u8",
    "f4": "<f4", "f8": "<f8", "c8": "<c8", "c16": "<c16", "bool": "?",
}
_NAMES = {np.dtype(code): name for name, code in _NUMPY.items()}
#: Names in bytes for NumPy and in bits for the protocol: ambiguous ones are refused.
_TWO_MEANINGS = {"i8": "int", "u8": "uint"}
#: The label that keeps the types of a structured dtype whose fields differ.
_FIELDS = "numpy.fields"


@dataclass(frozen=True)
class Channel:
    """One channel of a stream.

    In a mapping of channels the name is the key and stays empty here. A value in the channel's unit is
    element × ``scale`` + ``offset``; ``shape`` is that of one sample, empty for a single number.

    >>> Channel("V", scale=0.001)
    Channel(unit='V', shape=(), scale=0.001, offset=0.0, name='')
    """

    unit: str = ""
    shape: tuple[int, ...] = ()
    scale: float = 1.0
    offset: float = 0.0
    name: str = ""

    @property
    def elements(self) -> int:
        """Number of elements per sample."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Schema:
    """The schema of a stream.

    Elements are in the order of the channels, those of one sample contiguous.
    """

    dtype: np.dtype[Any]
    rate: Fraction
    channels: tuple[Channel, ...]
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def elements_per_sample(self) -> int:
        """Number of elements per sample over all channels."""
        return sum(channel.elements for channel in self.channels)

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape of one sample in the array of a block.

        That of a single channel, otherwise the number of channels; for channels of several shapes, the total number of
        their elements.
        """
        if len(self.channels) == 1 and self.channels[0].shape:
            return self.channels[0].shape
        return (self.elements_per_sample,)

    @property
    def record_dtype(self) -> np.dtype[Any]:
        """The structured dtype of one sample: a field for each channel."""
        bases = json.loads(self.labels.get(_FIELDS, "{}"))
        fields = [(c.name, np.dtype(bases.get(c.name, self.dtype)), c.shape) for c in self.channels]
        return np.dtype(fields)

    def place(self, name: str) -> slice:
        """Returns the range of a channel's elements in a sample."""
        start = 0
        for channel in self.channels if isinstance(name, str) else ():
            if channel.name == name:
                return slice(start, start + channel.elements)
            start += channel.elements
        names = ", ".join(channel.name for channel in self.channels)
        raise UnknownChannel(f"unknown channel {name!r}\nthe channels are: {names}")

    def channel(self, name: str) -> Channel:
        """Returns a channel by its name."""
        self.place(name)
        return next(channel for channel in self.channels if channel.name == name)

    @classmethod
    def _of_json(cls, text: str) -> Schema:
        parts = json.loads(text)
        rate = parts["rate"]
        channels = (
            Channel(c["unit"], tuple(c["shape"]), c["scale"], c["offset"], c["name"]) for c in parts["channels"]
        )
        return cls(
            np.dtype(_NUMPY[parts["dtype"]]),
            Fraction(rate["numerator"], rate["denominator"]),
            tuple(channels),
            dict(parts["labels"]),
        )


Channels = Union[Mapping[str, Union[str, Channel]], Iterable[Union[str, Channel]], None]
"""Channels by name with their units, or with :class:`Channel`; or names alone, or :class:`Channel` with a name."""


def rate_text(rate: Rate) -> str:
    """Returns a rate as the library reads it."""
    if isinstance(rate, str):
        return rate
    try:
        # The decimal that was written, not the binary number next to it.
        exact = Fraction(repr(rate)) if isinstance(rate, float) else Fraction(rate)
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        raise ArgumentError(f'a rate is samples per second such as 48_000, "48k" or Fraction(1000, 3), not {rate!r}') from None
    return f"{exact.numerator}/{exact.denominator}"


def widened(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Returns the dtype of a stream that holds every number of another one exactly: `f4` for `f2`, else the same."""
    return np.dtype(np.float32) if dtype.newbyteorder("=") == np.float16 else dtype


def dtype_name(dtype: np.dtype[Any]) -> str:
    """Returns the protocol's name of a dtype."""
    held = stream_dtype(dtype)
    if held is None:
        raise ConfigError(f"unsupported dtype {dtype}\nuse one of {', '.join(map(str, _NAMES))}")
    return _NAMES[held]


def stream_dtype(dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """Returns the dtype of a stream that holds every number of ``dtype`` exactly; None if there is none."""
    little = widened(dtype).newbyteorder("<")
    return little if little in _NAMES else None


def declared(channels: Channels, dtype: npt.DTypeLike) -> tuple[str, list[Channel], dict[str, str]]:
    """Returns dtype, channels and labels of a stream from a user's description."""
    if isinstance(dtype, str) and dtype in _TWO_MEANINGS:
        small, large = f"{_TWO_MEANINGS[dtype]}8", f"{_TWO_MEANINGS[dtype]}64"
        raise ConfigError(f'dtype "{dtype}" is {large} to NumPy and {small} on the command line\nwrite "{large}" or "{small}"')
    try:
        given = np.dtype(_NUMPY[dtype] if isinstance(dtype, str) and dtype in _NUMPY else dtype)
    except TypeError:
        raise ArgumentError(f"unknown dtype {dtype!r}\nuse one of {', '.join(map(str, _NAMES))}") from None
    if given.names is not None:
        return _of_fields(given, channels)
    return dtype_name(given), _named(channels), {}


def _of_fields(given: np.dtype[Any], units: Channels) -> tuple[str, list[Channel], dict[str, str]]:
    """The fields of a structured dtype are channels; a stream has one dtype, which must hold all of them exactly."""
    known = {channel.name: channel for channel in _named(units)} if units is not None else {}
    strangers = known.keys() - set(given.names or ())
    if strangers:
        raise ConfigError(f"the dtype has no field {', '.join(sorted(strangers))}")
    bases: dict[str, np.dtype[Any]] = {}
    channels = []
    for name in given.names or ():
        base, shape = _base_and_shape(given[name])
        bases[name] = base
        of = known.get(name, Channel())
        channels.append(Channel(of.unit, shape, of.scale, of.offset, name))
    common = widened(np.result_type(*bases.values()))
    lost = [name for name, base in bases.items() if not holds_exactly(common, base)]
    if lost:
        raise ConfigError(
            f"no dtype of a stream holds all fields exactly; {', '.join(lost)} would be rounded to {common}\n"
            "publish such fields as separate streams"
        )
    is_plain = all(base.newbyteorder("=") == common for base in bases.values())
    labels = {} if is_plain else {_FIELDS: json.dumps({n: b.str for n, b in bases.items()})}
    return dtype_name(common), channels, labels


def holds_exactly(common: np.dtype[Any], base: np.dtype[Any]) -> bool:
    """Returns whether every value of ``base`` can be written as ``common`` and read back."""
    if base.kind in "iu" and common.kind in "fc":
        digits = np.finfo(common).nmant + 1
        return bool(8 * base.itemsize - (base.kind == "i") <= digits)
    return np.can_cast(base, common, "safe")


def _base_and_shape(field_dtype: np.dtype[Any]) -> tuple[np.dtype[Any], tuple[int, ...]]:
    base = field_dtype.base
    if base.names is not None:
        raise ConfigError("fields within fields are not channels\nflatten the dtype")
    dtype_name(base)
    return base, tuple(field_dtype.shape)


def _named(channels: Channels) -> list[Channel]:
    if channels is None:
        return []
    if isinstance(channels, str):
        return [Channel(name=channels)]
    if not isinstance(channels, Mapping):
        return [it if isinstance(it, Channel) else Channel(name=it) for it in channels]
    made = []
    for name, said in cast("Mapping[str, Union[str, Channel]]", channels).items():
        of = Channel(said) if isinstance(said, str) else said
        if not isinstance(of, Channel):
            raise ArgumentError(f"channel {name!r} is {of!r}\ngive its unit, or a tallycast.Channel")
        made.append(Channel(of.unit, tuple(of.shape), of.scale, of.offset, name))
    return made
