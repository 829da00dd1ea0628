"""Operators: functions of streams that a monitor runs in separate processes.

Here a function declares its output, and is found by its name in the settings; its process is
in ``_operating``. How to write one: ``docs/guide/python-apps.md``.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Optional, TypeVar, Union, cast, overload

import numpy as np
import numpy.typing as npt

from tallycast._chunks import Chunk
from tallycast._errors import ConfigError, of_arguments
from tallycast._samples import as_samples
from tallycast._schema import Channels, Schema, declared

__all__ = ["Declaration", "load", "operator"]

#: Function of an operator, called with each chunk: returns an array with its expected results; ``None`` for a hole.
OperatorFunction = Callable[[Chunk], Optional[npt.ArrayLike]]

_DECLARED = "__tallycast_operator__"
_INCOMPLETE = ("hole", "give")
_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])


@dataclass(frozen=True)
class Declaration:
    """Declaration of an operator's output."""

    #: The dtype of the results; ``None`` for that of the input.
    dtype: Optional[npt.DTypeLike] = None
    #: The channels of the results; ``None`` for those of the input.
    channels: Channels = None
    #: Number of input samples per result.
    every: int = 1
    #: ``"hole"`` or ``"give"``.
    incomplete: str = "hole"

    @of_arguments()
    def __post_init__(self) -> None:
        declared(self.channels, "f8" if self.dtype is None else self.dtype)
        if self.every < 1:
            raise ConfigError(f"invalid every={self.every}\nwrite the number of input samples per result")
        if self.incomplete not in _INCOMPLETE:
            raise ConfigError(f'incomplete={self.incomplete!r} is not known\nchoose "hole" or "give"')

    def over(self, **said: Any) -> Declaration:
        """Returns the declaration with the settings applied; ``None`` keeps the declared value."""
        return replace(self, **{name: value for name, value in said.items() if value is not None})


@overload
def operator(what: _Decorated) -> _Decorated: ...
@overload
def operator(
    *,
    dtype: Optional[npt.DTypeLike] = None,
    channels: Channels = None,
    every: int = 1,
    incomplete: str = "hole",
) -> Callable[[_Decorated], _Decorated]: ...


def operator(
    what: Optional[_Decorated] = None,
    *,
    dtype: Optional[npt.DTypeLike] = None,
    channels: Channels = None,
    every: int = 1,
    incomplete: str = "hole",
) -> Union[_Decorated, Callable[[_Decorated], _Decorated]]:
    """Declares the results of an operator. The function or class itself is returned unchanged, so that tests can call it.

    >>> import numpy as np, tallycast as tc
    >>> @tc.operator(every=100, channels={"rms": "V"}, dtype="f4")
    ... def rms(chunk):
    ...     return np.sqrt(np.square(chunk.windows, dtype="f8").mean(axis=(1, 2)))

    Args:
        dtype: Type of the results; that of the input by default.
        channels: Channels of the results, as for ``tc.Publisher``; those of the input by default.
        every: Number of input samples per result.
        incomplete: Missing elements of the input make holes in the results; ``"give"`` lets the function decide.
    """
    declaration = Declaration(dtype=dtype, channels=channels, every=every, incomplete=incomplete)

    def decorate(what: _Decorated) -> _Decorated:
        setattr(what, _DECLARED, declaration)
        return what

    return decorate if what is None else decorate(what)


@dataclass(frozen=True)
class Loaded:
    """An operator as it was found."""

    declaration: Declaration
    #: Makes the function for one epoch of the input: an instance if it is a class, so that its state starts fresh.
    begin: Callable[[], OperatorFunction]


def load(place: str, settings: Mapping[str, Any], *, only_declared: bool = False) -> Loaded:
    """Finds an operator by ``module:function`` or ``path.py:function``, and gives it its settings.

    Args:
        place: Where it is.
        settings: Its arguments by name.
        only_declared: Takes a function of its own file that is declared with ``@tc.operator``, and no other.

    Raises:
        ConfigError: if there is no such function, or it does not take these settings.
        Exception: any exception raised by the module during its import.
    """
    where, _, path = place.rpartition(":")
    if not where or not path:
        raise ConfigError(f"`{place}` does not name a function\nwrite module:function or path.py:function")
    module: Any = _file(Path(where)) if where.endswith(".py") else importlib.import_module(where)
    found = module
    for name in path.split("."):
        if not hasattr(found, name):
            raise ConfigError(f"`{where}` has no `{path}`\nname a function or class that it contains")
        found = getattr(found, name)
    if not callable(found):
        raise ConfigError(f"`{place}` is a {type(found).__name__} and cannot be called\nname a function or class")
    if only_declared and (not hasattr(found, _DECLARED) or getattr(found, "__module__", None) != module.__name__):
        raise ConfigError(f"`{place}` is not declared as an operator\nwrite @tc.operator above it, in this file")
    declaration = getattr(found, _DECLARED, Declaration())
    _check_settings(place, found, settings)
    if inspect.isclass(found):
        return Loaded(declaration, functools.partial(_instance, place, found, dict(settings)))
    function = cast(OperatorFunction, functools.partial(found, **settings))
    return Loaded(declaration, lambda: function)


def _file(path: Path) -> Any:
    # A file may be called like a module that is there; it is not to take its place.
    taken = path.stem in sys.modules or path.stem in sys.stdlib_module_names
    name = f"operator_{path.stem}" if taken else path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ConfigError(f"file not found: {path}\na relative path starts from the folder of the settings")
    module = importlib.util.module_from_spec(spec)
    # Modules next to it can be imported, as if the file were run.
    sys.path.insert(0, str(path.resolve().parent))
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _instance(place: str, kind: Any, settings: Mapping[str, Any]) -> OperatorFunction:
    made = kind(**settings)
    if not callable(made):
        raise ConfigError(f"instances of `{place}` cannot be called\ngive the class a method __call__(self, chunk)")
    return cast(OperatorFunction, made)


def _check_settings(place: str, found: Any, settings: Mapping[str, Any]) -> None:
    try:
        signature = inspect.signature(found)
    except (TypeError, ValueError):
        return  # Of what is not written in Python nothing is known before it is called.
    try:
        signature.bind(*(() if inspect.isclass(found) else (None,)), **settings)
    except TypeError as error:
        raise ConfigError(f"`{place}` does not take these settings: {error}") from None


def rows(result: Optional[npt.ArrayLike], chunk: Chunk, schema: Schema) -> tuple[Any, Any]:
    """Returns results as an array ``[results, *sample_shape]`` and which of them are there; ``(None, None)`` for a hole.

    Raises:
        ConfigError: if there are not as many as are expected, or they do not fit the schema.
    """
    if result is None:
        return None, None
    there = None
    if isinstance(result, np.ma.MaskedArray) and result.ndim > 0:
        # Whatever lies under a mask, a result of which an element is masked is a hole.
        mask = np.ma.getmaskarray(result)
        there = ~mask.reshape(len(mask), -1).any(axis=1)
        absent = np.broadcast_to(~there.reshape(-1, *[1] * (mask.ndim - 1)), mask.shape)
        result = np.ma.MaskedArray(np.ma.getdata(result), absent)
    array = as_samples(schema, result).array
    count = len(chunk)
    if len(array) != count:
        raise ConfigError(
            f"it returned {len(array)} results where {count} are expected\n"
            "return one for each sample, or for each window of `every` samples; or None for a hole"
        )
    return array, there
