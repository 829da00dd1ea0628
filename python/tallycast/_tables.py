"""Tables and columns of other packages as arrays by name; none of the packages is imported here.

A null of pandas, Polars or Arrow is a masked element: no number stands for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tallycast._errors import ConfigError

Array = npt.NDArray[Any]


def columns_of(block: Any) -> dict[str, Any] | None:
    """Returns the columns of a mapping, a structured array or a table by their names; None of anything else."""
    if isinstance(block, Mapping):
        return {str(name): column for name, column in block.items()}
    if isinstance(block, np.ndarray):
        fields = np.atleast_1d(block) if block.dtype.names else None
        return None if fields is None else {name: fields[name] for name in block.dtype.names or ()}
    names = _names(block)
    if names is None:
        return None
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigError(f"the table has two columns `{twice}`\nrename one, or leave it out")
    return {str(name): block[name] for name in names}


def array_of(values: Any) -> Array:
    """Returns a column, or anything else that is like an array, as one; masked where an element is missing."""
    if isinstance(values, np.ma.MaskedArray):
        return values
    if isinstance(values, (list, tuple)):
        return _of_sequence(values)
    kinds = _kinds(values)
    if kinds & {"pandas.Series", "pandas.Index"}:
        return _of_pandas(values)
    if "polars.Series" in kinds:
        return _scattered(values.is_null().to_numpy(), _plain(values.drop_nulls().to_numpy()))
    if kinds & {"pyarrow.Array", "pyarrow.ChunkedArray"}:
        absent = np.asarray(values.is_null().to_numpy(zero_copy_only=False))
        return _scattered(absent, _plain(values.drop_null().to_numpy(zero_copy_only=False)))
    return np.asarray(values)


def _names(block: Any) -> list[Any] | None:
    kinds = _kinds(block)
    if kinds & {"pandas.DataFrame", "polars.DataFrame"}:
        return list(block.columns)
    if kinds & {"pyarrow.Table", "pyarrow.RecordBatch"}:
        return list(block.column_names)
    if "astropy.Table" in kinds:
        return list(block.colnames)
    if hasattr(type(block), "columns") or hasattr(type(block), "column_names"):
        # As an array it would go out by the order of its columns, or be a description of work not yet done.
        raise ConfigError(
            f"a table of {type(block).__module__}.{type(block).__name__} is not known\n"
            "send a mapping from channel to array, or a table of pandas, Polars or Arrow"
        )
    return None


def _kinds(it: Any) -> set[str]:
    """Returns the classes of an object as `package.Class`: of subclasses such as geopandas' tables also their bases."""
    return {f"{each.__module__.partition('.')[0]}.{each.__name__}" for each in type(it).__mro__}


def _of_pandas(values: Any) -> Array:
    dtype = values.dtype
    if isinstance(dtype, np.dtype):
        return _plain(np.asarray(values))
    present = values.dropna()
    numbers = getattr(dtype, "numpy_dtype", None)
    return _scattered(np.asarray(values.isna()), _plain(present.to_numpy() if numbers is None else present.to_numpy(dtype=numbers)))


def _of_sequence(values: Any) -> Array:
    if any(isinstance(it, np.ma.MaskedArray) for it in values):
        return _of_masked_parts(values)
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ConfigError(f"the samples have different shapes: {error}\ngive as many elements of each") from None
    if array.dtype.kind in "fc" and (doubtful := _beyond(array)).any():
        _refuse_rounded(np.asarray(values, dtype=object)[doubtful], array.dtype)
    return array


def _beyond(array: Array) -> npt.NDArray[np.bool_]:
    """Returns which floats an integer may have been rounded to."""
    large: npt.NDArray[np.bool_] = np.abs(np.real(array)) >= 2.0 ** (np.finfo(array.dtype).nmant + 1)
    return large


def _refuse_rounded(given: Iterable[Any], dtype: np.dtype[Any]) -> None:
    """Refuses integers that NumPy made other ones of, to have one dtype with floats."""
    for it in given:
        if isinstance(it, (int, np.integer)) and int(np.real(dtype.type(int(it)))) != int(it):
            raise ConfigError(f"no dtype holds both {it} and the other numbers exactly\ngive integers, or floats")


def _of_masked_parts(values: Any) -> Array:
    # NumPy writes a masked number as NaN, with a warning, before it masks it; by itself it is a float of no shape.
    present = [np.ma.asarray(it) for it in values if it is not np.ma.masked]
    like = present[0] if present else np.ma.asarray(0.0)
    absent = np.ma.MaskedArray(np.zeros(like.shape, like.dtype), True)
    joined = np.ma.stack([absent if it is np.ma.masked else np.ma.asarray(it) for it in values])
    if joined.dtype.kind in "fc":
        for part in present:
            _refuse_rounded(part.compressed() if part.dtype.kind in "iu" else (), joined.dtype)
    return joined


def _plain(array: Array) -> Array:
    """Returns numbers that a package keeps as objects, such as lists in a column, as an array of numbers."""
    if array.dtype != object or not array.size:
        return array
    return _of_sequence([it.tolist() if isinstance(it, np.ndarray) else it for it in array])


def _scattered(absent: npt.NDArray[np.bool_], present: Array) -> Array:
    """Returns the elements that are present at their places among those that are absent."""
    if not absent.any():
        return present
    made = np.zeros((len(absent), *present.shape[1:]), present.dtype)
    made[~absent] = present
    mask = np.zeros(made.shape, np.bool_)
    mask[absent] = True
    return np.ma.MaskedArray(made, mask)
