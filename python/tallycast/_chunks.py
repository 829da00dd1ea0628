"""Cutting an operator's input into chunks: whole windows where it asks for them, and holes where there is nothing.

Values in, values out: nothing here knows where blocks come from or where results go. Start with ``Cutter``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Optional, Protocol, Union

import numpy as np
import numpy.typing as npt

from tallycast._errors import ConfigError
from tallycast._schema import Schema

#: A window that takes more memory is refused: it would be held twice while it is cut.
MAX_WINDOW_BYTES = 1 << 28
_SECOND = 1_000_000_000


class Source(Protocol):
    """Required parts of a ``tc.Block``."""

    @property
    def array(self) -> npt.NDArray[Any]: ...
    @property
    def first_index(self) -> int: ...
    @property
    def t0_ns(self) -> int: ...
    @property
    def times(self) -> npt.NDArray[np.int64]: ...
    @property
    def missing(self) -> Optional[npt.NDArray[np.bool_]]: ...
    @property
    def gaps(self) -> Sequence[Any]: ...
    @property
    def stream(self) -> str: ...
    @property
    def epoch(self) -> str: ...
    @property
    def rate(self) -> Fraction: ...
    @property
    def schema(self) -> Schema: ...


@dataclass(frozen=True)
class Hole:
    """Results that there will not be: ``samples`` of the output."""

    samples: int


class Chunk:
    """The argument of an operator's function: consecutive samples of one input.

    ``array`` is ``[samples, channels]`` (``[samples, *shape]`` where the only channel has a shape), and ``len(chunk)``
    results are expected of it: one for each sample, or for each window of ``every`` samples.
    """

    __slots__ = (
        "_times",
        "array",
        "epoch",
        "every",
        "first_index",
        "gaps",
        "missing",
        "rate",
        "schema",
        "stream",
    )

    #: The samples; do not write into them.
    array: npt.NDArray[Any]
    #: Mask of the missing elements, in the shape of ``array``; ``None`` if all arrived. Missing elements are zero.
    missing: Optional[npt.NDArray[np.bool_]]
    #: Index of the first sample since the input's epoch began.
    first_index: int
    #: Gaps of the input that were declared since the chunk before.
    gaps: Sequence[Any]
    #: The input's name, its publisher's epoch, its rate in samples per second, and what its samples mean.
    stream: str
    epoch: str
    rate: Fraction
    schema: Schema
    #: Number of samples per result.
    every: int

    def __init__(
        self,
        source: Source,
        every: int,
        array: npt.NDArray[Any],
        first_index: int,
        missing: Optional[npt.NDArray[np.bool_]],
        times: Union[Source, npt.NDArray[np.int64]],
        gaps: Sequence[Any],
    ) -> None:
        self.stream, self.epoch, self.rate, self.schema = source.stream, source.epoch, source.rate, source.schema
        self.every, self.array, self.first_index, self.missing = every, array, first_index, missing
        self._times, self.gaps = times, gaps

    def __len__(self) -> int:
        return len(self.array) // self.every

    @property
    def next_index(self) -> int:
        """Index one behind the last sample."""
        return self.first_index + len(self.array)

    @property
    def times(self) -> npt.NDArray[np.int64]:
        """Time of each sample, in nanoseconds since 1970 UTC."""
        return self._times if isinstance(self._times, np.ndarray) else self._times.times

    @property
    def t0_ns(self) -> int:
        """Time of the first sample."""
        return int(self._times[0]) if isinstance(self._times, np.ndarray) else self._times.t0_ns

    @property
    def windows(self) -> npt.NDArray[Any]:
        """The samples by window: ``[results, every, channels]``."""
        return self.array.reshape(len(self), self.every, *self.array.shape[1:])

    def __getitem__(self, channel: str) -> npt.NDArray[Any]:
        """The samples of one channel: ``[samples]``, or ``[samples, *shape]``."""
        flat = self.array.reshape(len(self.array), self.schema.elements_per_sample)
        return flat[:, self.schema.place(channel)].reshape(len(flat), *self.schema.channel(channel).shape)

    def values(self) -> npt.NDArray[Any]:
        """The samples as numbers in the channels' units: element × scale + offset, in the shape of ``array``."""
        made = self.array.reshape(len(self.array), self.schema.elements_per_sample)
        made = made.astype(np.complex128 if self.schema.dtype.kind == "c" else np.float64)
        for of in self.schema.channels:
            if (of.scale, of.offset) != (1.0, 0.0):
                place = self.schema.place(of.name)
                made[:, place] = made[:, place] * of.scale + of.offset
        return made.reshape(self.array.shape)

    def __repr__(self) -> str:
        return f"<Chunk of {self.stream}: samples {self.first_index} to {self.next_index}>"

    def _has_all(self) -> Optional[npt.NDArray[np.bool_]]:
        """Returns for each result whether all its elements arrived; ``None`` if so for all."""
        if self.missing is None:
            return None
        whole: npt.NDArray[np.bool_] = np.logical_not(np.any(self.missing.reshape(len(self), -1), axis=1))
        return whole


class Cutter:
    """Cuts the blocks of one epoch of one input.

    Windows begin where the index is a multiple of ``every``, so that a reader that joins later cuts at the same places;
    the first is the first that can be complete. A window with missing samples is a hole, unless ``give`` passes it to
    the function with its mask; a window without any sample is always a hole.
    """

    def __init__(self, every: int, *, give: bool) -> None:
        self._every = every
        self._give = give
        self._parts: list[_Part] = []
        #: Index of the first sample of the next window, and one behind the last sample of the parts.
        self._start: Optional[int] = None
        self._end = 0
        self._gaps: list[Any] = []

    def feed(self, block: Source) -> Iterable[Union[Chunk, Hole]]:
        """Takes a block; returns what it makes possible, in the order of the stream."""
        self._gaps.extend(block.gaps)
        every = self._every
        if self._start is None:
            if every * block.array[:1].nbytes > MAX_WINDOW_BYTES:
                raise ConfigError(
                    f"a window of {every} samples takes more than {MAX_WINDOW_BYTES >> 20} MiB\nuse a smaller `every`"
                )
            self._start = self._end = -(-block.first_index // every) * every
        if block.first_index > self._end:
            yield from self._over_gap(block)
        cut = self._end - block.first_index
        if cut < len(block.array):
            self._parts.append(_Part.of(block, cut))
            self._end = block.first_index + len(block.array)
        yield from self._whole(block)

    def finish(self, next_index: int) -> Iterable[Hole]:
        """Ends the epoch before the sample ``next_index``: windows whose end has passed and that are not there are holes.

        The samples of a window that is not over are of no result.
        """
        if self._start is not None:
            lost = next_index // self._every - self._start // self._every
            if lost > 0:
                yield Hole(lost)
            self._start = None
            self._parts.clear()

    def _over_gap(self, block: Source) -> Iterable[Union[Chunk, Hole]]:
        """Goes on behind a gap: what is begun is given with its mask, or is a hole with all that is not there."""
        assert self._start is not None
        every, first = self._every, block.first_index
        if self._give and self._parts:
            # A whole window at most is begun and not given yet.
            until = min(first, self._start + every)
            self._parts.append(_Part.nothing(block, self._end, until))
            self._end = until
            yield from self._whole(block)
        # A window of which nothing has come yet can be given if its end is still to come.
        to = first // every * every if self._give else -(-first // every) * every
        if self._end < to:
            yield Hole((to - self._start) // every)
            self._parts.clear()
            self._start = self._end = to
        if self._give and self._end < first:
            self._parts.append(_Part.nothing(block, self._end, first))
            self._end = first

    def _whole(self, block: Source) -> Iterable[Chunk]:
        """Returns all whole windows as one chunk."""
        assert self._start is not None
        samples = (self._end - self._start) // self._every * self._every
        if samples == 0:
            return
        first = self._start
        array, missing, times = _joined(self._parts)
        rest = _Part(array[samples:], None if missing is None else missing[samples:], _after(times, samples))
        self._parts = [rest] if len(rest.array) else []
        self._start = first + samples
        gaps, self._gaps = self._gaps, []
        if samples < len(array):
            array, missing, times = array[:samples], _before(missing, samples), _times(times)[:samples]
        if missing is not None and not missing.any():
            missing = None
        yield Chunk(block, self._every, array, first, missing, times, gaps)


@dataclass(frozen=True)
class _Part:
    """Consecutive samples; times are asked for only when they are needed."""

    array: npt.NDArray[Any]
    missing: Optional[npt.NDArray[np.bool_]]
    times: Union[Source, npt.NDArray[np.int64]]

    @staticmethod
    def of(block: Source, cut: int) -> _Part:
        if cut == 0:
            return _Part(block.array, block.missing, block)
        missing = None if block.missing is None else block.missing[cut:]
        return _Part(block.array[cut:], missing, block.times[cut:])

    @staticmethod
    def nothing(block: Source, first: int, to: int) -> _Part:
        """Missing samples, with the times at which they were due."""
        array = np.zeros((to - first, *block.array.shape[1:]), block.array.dtype)
        # Before the block by less than a window: a float counts nanoseconds exactly for a hundred days.
        ticks = np.arange(first - block.first_index, to - block.first_index) * float(_SECOND / block.rate)
        times = block.t0_ns + np.rint(ticks).astype(np.int64)
        return _Part(array, np.ones(array.shape, np.bool_), times)


def _joined(
    parts: Sequence[_Part],
) -> tuple[npt.NDArray[Any], Optional[npt.NDArray[np.bool_]], Union[Source, npt.NDArray[np.int64]]]:
    if len(parts) == 1:
        return parts[0].array, parts[0].missing, parts[0].times
    array = np.concatenate([part.array for part in parts])
    missing = None
    if any(part.missing is not None for part in parts):
        missing = np.concatenate(
            [np.zeros(part.array.shape, np.bool_) if part.missing is None else part.missing for part in parts]
        )
    return array, missing, np.concatenate([_times(part.times) for part in parts])


def _times(times: Union[Source, npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    return times if isinstance(times, np.ndarray) else times.times


def _after(times: Union[Source, npt.NDArray[np.int64]], samples: int) -> npt.NDArray[np.int64]:
    # Nobody asks for the times behind a chunk that took everything.
    return _times(times)[samples:] if isinstance(times, np.ndarray) or samples < len(times.array) else np.empty(0, np.int64)


def _before(missing: Optional[npt.NDArray[np.bool_]], samples: int) -> Optional[npt.NDArray[np.bool_]]:
    return None if missing is None else missing[:samples]
