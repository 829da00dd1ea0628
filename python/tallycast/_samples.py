"""Samples in the forms users have them, converted to an array of the stream's dtype and shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tallycast._errors import ConfigError
from tallycast._schema import Schema

#: Range of nanoseconds in 64 bits.
_EARLIEST, _LATEST = np.datetime64("1678-01-01", "s"), np.datetime64("2262-01-01", "s")
_BEYOND = "a sample's time is outside the years 1678 to 2262, the range of nanoseconds since 1970"


def as_samples(schema: Schema, block: Any) -> npt.NDArray[Any]:
    """Returns ``block`` as an array ``[samples, *sample_shape]``, contiguous.

    Taken are arrays and sequences of that shape, of ``[samples, elements]``, of one sample; ``[samples]`` where a sample
    has one element; mappings from channel to array; and structured arrays with a field for each channel.
    """
    if isinstance(block, Mapping):
        return _joined(schema, {name: np.asarray(values) for name, values in block.items()})
    array = np.asarray(block)
    if array.dtype.names is not None:
        fields = np.atleast_1d(array)
        return _joined(schema, {name: fields[name] for name in fields.dtype.names or ()})
    return np.ascontiguousarray(_cast(_shaped(schema, array), schema.dtype))


def as_times(times: npt.ArrayLike, t0_ns: int | None) -> npt.NDArray[np.int64]:
    """Returns times as nanoseconds since 1970 UTC. Shape: ``[samples]``."""
    if t0_ns is not None:
        raise ConfigError("give either t0_ns or times, not both")
    given = np.asarray(times)
    if given.dtype.kind == "M":
        if np.isnat(given).any():
            raise ConfigError("a sample has no time (NaT)\ngive one for each, or omit the sample")
        seconds = given.astype("datetime64[s]")
        if given.size and not (_EARLIEST < seconds.min() and seconds.max() < _LATEST):
            raise ConfigError(_BEYOND)
        given = given.astype("datetime64[ns]").view(np.int64)
    if given.dtype.kind == "u" and given.size and int(given.max()) > np.iinfo(np.int64).max:
        raise ConfigError(_BEYOND)
    if given.dtype.kind not in "iu" or given.ndim != 1:
        raise ConfigError("times are integers, nanoseconds since 1970 UTC, one for each sample")
    return np.ascontiguousarray(given, np.int64)


def _shaped(schema: Schema, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    sample, elements = schema.sample_shape, schema.elements_per_sample
    if array.shape[1:] == sample and array.ndim > 0:
        return array
    if array.ndim == 2 and array.shape[1] == elements:
        return array.reshape(-1, *sample)
    if elements == 1 and array.ndim <= 1:
        return array.reshape(-1, *sample)
    if array.shape == sample or array.shape == (elements,):
        return array.reshape(1, *sample)
    wanted = ", ".join(["samples", *map(str, sample)])
    raise ConfigError(f"the array is of shape {list(array.shape)}, not [{wanted}]")


def _joined(schema: Schema, parts: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[Any]:
    names = [channel.name for channel in schema.channels]
    if set(parts) != set(names):
        raise ConfigError(f"the channels are {', '.join(names)}, not {', '.join(parts)}")
    samples = {len(part) if part.ndim else 1 for part in parts.values()}
    if len(samples) != 1:
        raise ConfigError(f"the channels have {', '.join(map(str, sorted(samples)))} samples\ngive as many of each")
    count = samples.pop()
    joined = np.empty((count, schema.elements_per_sample), schema.dtype)
    for channel in schema.channels:
        part = parts[channel.name]
        if part.size != count * channel.elements:
            wanted = ", ".join([str(count), *map(str, channel.shape)])
            raise ConfigError(f"channel {channel.name} is of shape {list(part.shape)}, not [{wanted}]")
        joined[:, schema.place(channel.name)] = _cast(part, schema.dtype).reshape(count, channel.elements)
    return joined.reshape(count, *schema.sample_shape)


def _cast(array: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Returns the same numbers as another dtype; floats may be rounded, integers must fit."""
    if array.dtype == dtype:
        return array
    if np.can_cast(array.dtype, dtype, "safe") or (array.dtype.kind in "fiub" and dtype.kind in "fc"):
        return array.astype(dtype)
    if array.dtype.kind == "c" and dtype.kind == "c":
        return array.astype(dtype)
    if array.dtype.kind in "iu" and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if array.size == 0 or (int(array.min()) >= limits.min and int(array.max()) <= limits.max):
            return array.astype(dtype)
        beyond = f"{array.min()} to {array.max()} go beyond {limits.min} to {limits.max}"
        raise ConfigError(f"the stream's elements are {dtype}: {beyond}\nscale the samples, or declare a larger dtype")
    raise ConfigError(f"the stream's elements are {dtype}, not {array.dtype}\nconvert the samples: block.astype({dtype.str!r})")
