"""Arrays and tasks of Dask: a chunk for each segment of the archive, read when it is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tallycast._errors import ArchiveError
from tallycast._excerpt import Piece
from tallycast._packages import needed

if TYPE_CHECKING:
    from tallycast._excerpt import Array, Rows


def array(rows: Rows, channel: str | None, as_values: bool) -> Any:
    """Returns the rows as an array whose chunks are segments."""
    dask = needed("dask", "archive")
    dask_array = needed("dask.array", "archive")
    shape = tuple(rows._recording.sample_shape) if channel is None else tuple(rows._channel(channel)[1].shape)
    dtype = rows.dtype
    if as_values:
        dtype = np.dtype(np.complex128 if dtype.kind == "c" else np.float64)
    chunks = []
    for part, count in _parts(rows):
        chunk = dask.delayed(_read, pure=False)(part, count, channel, as_values)
        chunks.append(dask_array.from_delayed(chunk, (count, *shape), dtype))
    return dask_array.concatenate(chunks) if chunks else dask_array.empty((0, *shape), dtype=dtype)


def delayed_pieces(rows: Rows) -> list[Any]:
    """Returns a task for each segment that reads it."""
    dask = needed("dask", "archive")
    return [dask.delayed(_loaded, pure=False)(part) for part, _ in _parts(rows)]


def _parts(rows: Rows) -> list[tuple[Piece, int]]:
    """Returns the segments that reach into the range, and how many rows each has."""
    parts = []
    for piece in rows.pieces:
        (start, stop), (first, end) = piece._times, piece._indices
        for segment in piece.recording.segments:
            indices = max(first, segment.first_index), min(end, segment.next_index)
            if indices[0] >= indices[1] or segment.t0_ns >= stop or segment.t1_ns <= start:
                continue
            is_whole = indices == (segment.first_index, segment.next_index)
            is_whole = is_whole and start <= segment.t0_ns and segment.t1_ns <= stop
            part = Piece(piece.recording, piece._times, indices)
            count = segment.samples if is_whole else piece.recording._core.look(part._times, part._indices)[0]
            if count:
                parts.append((part, count))
    return parts


def _read(part: Piece, count: int, channel: str | None, as_values: bool) -> Array:
    # Of its own: a task's memory goes with its result.
    fresh = Piece(part.recording, part._times, part._indices)
    if len(fresh) != count:
        first, end = part._indices
        raise ArchiveError(
            f"samples {first} to {end - 1} of {part.stream} were {count} and are {len(fresh)}: {fresh.gaps!r}\n"
            "a segment was damaged since the archive was opened: open it again, and what it held is in the gap map"
        )
    if as_values:
        return fresh.values(channel)
    return fresh.array if channel is None else fresh[channel]


def _loaded(part: Piece) -> Piece:
    fresh = Piece(part.recording, part._times, part._indices)
    len(fresh)
    return fresh
