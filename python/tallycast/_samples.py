"""Samples in the forms users have them, converted to an array of the stream's dtype and shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tallycast._errors import ArgumentError, ConfigError, Error
from tallycast._moments import moment_ns
from tallycast._schema import Schema
from tallycast._tables import Array, array_of, columns_of

#: Range of nanoseconds in 64 bits.
_EARLIEST, _LATEST = np.datetime64("1678-01-01", "s"), np.datetime64("2262-01-01", "s")
_BEYOND = "a sample's time is outside the years 1678 to 2262, the range of nanoseconds since 1970"


class Samples(NamedTuple):
    """Samples as they are published."""

    #: Shape: ``[samples, *sample_shape]``, contiguous, of the stream's dtype; 0 where one is missing.
    array: Array
    #: Runs of samples: the first, one behind the last, and whether they are there or masked; empty if all are there.
    runs: list[tuple[int, int, bool]]


def as_samples(schema: Schema, block: Any) -> Samples:
    """Returns ``block`` as samples of a stream.

    Taken are arrays and sequences of the shape ``[samples, *sample_shape]``, of ``[samples, elements]``, of one sample;
    ``[samples]`` where a sample has one element; mappings from channel to array, structured arrays, and tables of pandas,
    Polars and Arrow with a column for each channel, in any order.

    Numbers are converted by `exact`. A sample whose elements are all masked, or null in a table, is missing; a sample of which
    some are is refused, because a sample is there or missing as a whole.
    """
    try:
        columns = columns_of(block)
        if columns is not None:
            joined = _joined(schema, {name: array_of(column) for name, column in columns.items()})
        else:
            joined = _cast(_shaped(schema, array_of(block)), schema.dtype)
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, Error):
            raise
        raise ArgumentError(f"the samples are no numbers: {error}\ngive an array, or a mapping from channel to array") from error
    there = None if np.ma.getmask(joined) is np.ma.nomask else _there(np.ma.getmaskarray(joined))
    return Samples(np.ascontiguousarray(np.ma.getdata(joined)), [] if there is None else runs(there))


def runs(there: npt.NDArray[np.bool_]) -> list[tuple[int, int, bool]]:
    """Returns where samples are there and where not: the first, one behind the last, and which of both."""
    edges = [0, *(np.flatnonzero(there[1:] != there[:-1]) + 1).tolist(), len(there)]
    return [(first, end, bool(there[first])) for first, end in zip(edges, edges[1:])]


def as_times(times: Any, t0_ns: int | None) -> npt.NDArray[np.int64]:
    """Returns times as nanoseconds since 1970 UTC. Shape: ``[samples]``.

    Taken are integers, ``datetime64``, columns of pandas, Polars and Arrow, and sequences of moments: texts such as
    ``2026-11-21T20:15:00Z``, and ``datetime`` or ``pandas.Timestamp`` with a time zone.
    """
    if t0_ns is not None:
        raise ConfigError("give either t0_ns or times, not both")
    given = array_of(times)
    if np.ma.is_masked(given):
        raise ConfigError("a sample has no time (masked)\ngive one for each, or omit the sample")
    given = np.ma.getdata(given)
    if given.dtype.kind in "OU" and given.ndim == 1:
        given = np.array([moment_ns(moment) for moment in given.tolist()], dtype=np.int64)
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


def exact(array: Array, dtype: np.dtype[Any]) -> Array:
    """Returns the same numbers as another dtype.

    Only the digits of a float are rounded, to the nearest. Integers must fit, and be held to the last digit by a float.

    # Errors
    `ConfigError` for numbers that the dtype cannot hold.
    """
    have, want = array.dtype.kind, dtype.kind
    if array.dtype == dtype or (have == "b" and want in "iufc"):
        return array.astype(dtype, copy=False)
    if have in "iu" and want in "iu":
        return _integers(array, dtype)
    if have in "iu" and want in "fc":
        return _integers_as_floats(array, dtype)
    if have in "fc" and want in "fc" and (have, want) != ("c", "f"):
        return _floats(array, dtype)
    raise ConfigError(f"the stream's elements are {dtype}, not {array.dtype}\nconvert the samples: block.astype({dtype.str!r})")


def _shaped(schema: Schema, array: Array) -> Array:
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


def _joined(schema: Schema, parts: Mapping[str, Array]) -> Array:
    names = [channel.name for channel in schema.channels]
    _check_names(names, parts)
    samples = {len(part) if part.ndim else 1 for part in parts.values()}
    if len(samples) != 1:
        raise ConfigError(f"the channels have {', '.join(map(str, sorted(samples)))} samples\ngive as many of each")
    count = samples.pop()
    joined = np.empty((count, schema.elements_per_sample), schema.dtype)
    mask = np.zeros(joined.shape, np.bool_)
    for channel in schema.channels:
        part = parts[channel.name]
        if part.size != count * channel.elements:
            wanted = ", ".join([str(count), *map(str, channel.shape)])
            raise ConfigError(f"channel {channel.name} is of shape {list(part.shape)}, not [{wanted}]")
        flat = _cast(part, schema.dtype).reshape(count, channel.elements)
        place = schema.place(channel.name)
        joined[:, place], mask[:, place] = np.ma.getdata(flat), np.ma.getmaskarray(flat)
    whole = np.ma.MaskedArray(joined, mask) if mask.any() else joined
    return whole.reshape(count, *schema.sample_shape)


def _check_names(names: list[str], parts: Mapping[str, Array]) -> None:
    lacking, strange = [it for it in names if it not in parts], [it for it in parts if it not in names]
    if not (lacking or strange):
        return
    wrong = [f"{', '.join(lacking)} is missing"] if lacking else []
    wrong += [f"{', '.join(strange)} is unknown"] if strange else []
    raise ConfigError(f"the channels are {', '.join(names)}, not {', '.join(parts)}: {', '.join(wrong)}\ngive one column for each channel")


def _cast(array: Array, dtype: np.dtype[Any]) -> Array:
    """Returns the same numbers as another dtype, and 0 under a mask."""
    if np.ma.getmask(array) is np.ma.nomask:
        return exact(np.ma.getdata(array), dtype)
    mask = np.ma.getmaskarray(array)
    data = np.where(mask, np.zeros((), array.dtype), np.ma.getdata(array))
    return np.ma.MaskedArray(exact(data, dtype), mask)


def _there(mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_] | None:
    """Returns which samples are not masked; None if none is."""
    if not mask.any():
        return None
    elements = mask.reshape(len(mask), -1)
    there = np.asarray(~elements.all(axis=1))
    partial = np.flatnonzero(elements.any(axis=1) & there)
    if len(partial):
        raise ConfigError(
            f"sample {partial[0]} of the block is masked in part, and a sample is there or missing as a whole\n"
            "publish such channels as separate streams, or fill them: block.filled(numpy.nan)"
        )
    return there


def _integers(array: Array, dtype: np.dtype[Any]) -> Array:
    limits = np.iinfo(dtype)
    if array.size and not (int(array.min()) >= limits.min and int(array.max()) <= limits.max):
        beyond = f"{array.min()} to {array.max()} go beyond {limits.min} to {limits.max}"
        raise ConfigError(f"the stream's elements are {dtype}: {beyond}\nscale the samples, or declare a larger dtype")
    return array.astype(dtype)


def _integers_as_floats(array: Array, dtype: np.dtype[Any]) -> Array:
    # A float holds an integer if what is left of it without its trailing zero bits fits into the mantissa.
    digits = np.finfo(dtype).nmant + 1
    if 8 * array.dtype.itemsize - (array.dtype.kind == "i") > digits:
        bits = array.astype(np.int64 if array.dtype.kind == "i" else np.uint64).view(np.uint64)
        # The negative of 0 wraps, of which NumPy warns where there is one number alone.
        with np.errstate(over="ignore"):
            size = np.where(array < 0, ~bits + np.uint64(1), bits)
            odd = size // np.maximum(size & (~size + np.uint64(1)), np.uint64(1))
        rounded = odd >= np.uint64(2**digits)
        if rounded.any():
            raise ConfigError(
                f"the stream's elements are {dtype}, which has no {array[rounded].flat[0]}: integers are exact up to 2^{digits}\n"
                "declare an integer dtype, or round the samples yourself: block.astype(float)"
            )
    return array.astype(dtype)


def _floats(array: Array, dtype: np.dtype[Any]) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        made = array.astype(dtype)
    if np.finfo(dtype).max < np.finfo(array.dtype).max:
        beyond = np.isinf(made) & ~np.isinf(array)
        if beyond.any():
            raise ConfigError(
                f"the stream's elements are {dtype}: {array[beyond].flat[0]} goes beyond its range\n"
                "scale the samples, or declare a larger dtype"
            )
    return made
