"""Rows piece by piece: a range may be larger than memory.

A first look, which keeps no sample, tells how many rows there are and which channels lack elements; so a file's variables are
declared before their contents are read. Then each piece is read, written and forgotten.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from tallycast._errors import ArchiveError

if TYPE_CHECKING:
    from tallycast._excerpt import Rows, Stretch

#: Approximate size of a piece in bytes, as values of `f8` with their times and indices.
PIECE_BYTES = 16 << 20


class Outline(NamedTuple):
    """Everything about the rows of a range that a file's head needs."""

    #: Number of rows of each stretch.
    counts: list[int]
    #: Names of the channels of which some elements never arrived.
    partial: frozenset[str]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(self.counts)


def outline(rows: Rows) -> Outline:
    """Looks at the rows of a range. Cost: reads them once, and keeps none."""
    counts, partial = [], set()
    for stretch in rows.stretches:
        count, holes, places = stretch._looked
        stretch.recording.refuse_damage(holes)
        counts.append(count)
        missing = set(places)
        for channel in stretch.schema.channels:
            place = stretch.schema.place(channel.name)
            if not missing.isdisjoint(range(place.start, place.stop)):
                partial.add(channel.name)
    return Outline(counts, frozenset(partial))


def pieces(rows: Rows, count: int) -> Iterator[tuple[slice, Stretch]]:
    """Reads the rows in pieces, each with its place among them; there must be as many as were counted."""
    at = 0
    for stretch in rows.stretches:
        for piece in _of_stretch(stretch):
            if len(piece):
                yield slice(at, at + len(piece)), piece
                at += len(piece)
    if at != count:
        raise ArchiveError(
            f"{rows.stream} had {count} samples in the range, and has {at}\nit was changed meanwhile: open the archive again"
        )


def _of_stretch(stretch: Stretch) -> Iterator[Stretch]:
    step = max(1, PIECE_BYTES // (8 * stretch.schema.elements_per_sample + 16))
    (start, stop), (first, end) = stretch._times, stretch._indices
    holes = stretch._looked[1]
    starts = [hole.first_index for hole in holes]
    for segment in stretch.recording.segments:
        if segment.t0_ns >= stop or segment.t1_ns <= start:
            continue
        begin, behind = max(first, segment.first_index), min(end, segment.next_index)
        while begin < behind:
            # A hole may have more samples than all pieces together.
            place = bisect_right(starts, begin) - 1
            if place >= 0 and holes[place].next_index > begin:
                begin = holes[place].next_index
                continue
            yield stretch._within(begin, min(begin + step, behind))
            begin += step
