"""Arrays and tasks of Dask: a chunk for each segment of the archive, read when it is computed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tallycast._errors import ArchiveError
from tallycast._excerpt import Stretch
from tallycast._packages import needed

if TYPE_CHECKING:
    from tallycast._excerpt import Rows
    from tallycast._recording import Segment
    from tallycast._scaling import Array


def array(rows: Rows, channel: str | None, as_values: bool) -> Any:
    """Returns the rows as an array whose chunks are segments."""
    dask = needed("dask", "dask")
    dask_array = needed("dask.array", "dask")
    shape = tuple(rows._recording.sample_shape) if channel is None else tuple(rows._channel(channel)[1].shape)
    dtype = rows.dtype
    if as_values:
        dtype = np.dtype(np.complex128 if dtype.kind == "c" else np.float64)
    chunks = []
    for part, count in _parts(rows):
        chunk = dask.delayed(_read, pure=False)(part, count, channel, as_values)
        chunks.append(dask_array.from_delayed(chunk, (count, *shape), dtype))
    return dask_array.concatenate(chunks) if chunks else dask_array.empty((0, *shape), dtype=dtype)


def delayed_stretches(rows: Rows) -> list[Any]:
    """Returns a task for each segment that reads it."""
    dask = needed("dask", "dask")
    return [dask.delayed(_loaded, pure=False)(part) for part, _ in _parts(rows)]


def _parts(rows: Rows) -> list[tuple[Stretch, int]]:
    """Returns the segments that reach into the range, and how many rows each has.

    A hole between two segments belongs to the second, one behind the last to that.
    """
    parts = []
    for stretch in rows.stretches:
        found = [(segment, count) for segment, count in _segments(stretch) if count]
        ends = [segment.next_index for segment, _ in found[:-1]]
        first, end = stretch._indices
        spans = zip([first, *ends], [*ends, end])
        parts += [(stretch._within(*span), count) for span, (_, count) in zip(spans, found)]
    return parts


def _segments(stretch: Stretch) -> Iterator[tuple[Segment, int]]:
    start, stop = stretch._times
    for segment in stretch.recording.segments:
        part = stretch._within(segment.first_index, segment.next_index)
        if part._indices[0] >= part._indices[1] or segment.t0_ns >= stop or segment.t1_ns <= start:
            continue
        is_whole = part._indices == (segment.first_index, segment.next_index)
        if is_whole and start <= segment.t0_ns and segment.t1_ns <= stop:
            yield segment, segment.samples
        else:
            yield segment, part._looked[0]


def _read(part: Stretch, count: int, channel: str | None, as_values: bool) -> Array:
    # Of its own: a task's memory goes with its result.
    fresh = Stretch(part.recording, part._times, part._indices)
    if len(fresh) != count:
        raise ArchiveError(
            f"a segment of {part.stream} had {count} samples in the range, and has {len(fresh)}: {fresh.gaps!r}\n"
            "it was damaged after the archive was opened: open it again; its samples are then in the gap map"
        )
    if as_values:
        return fresh.values(channel)
    return fresh.array if channel is None else fresh[channel]


def _loaded(part: Stretch) -> Stretch:
    fresh = Stretch(part.recording, part._times, part._indices)
    len(fresh)
    return fresh
