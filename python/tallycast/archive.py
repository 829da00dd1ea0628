"""Recorded data, with the map of their gaps.

>>> import tallycast as tc
>>> archive = tc.open_archive("tallycast-archive")               # doctest: +SKIP
>>> excerpt = archive["lab/probe"].between("+10s", "+20s")       # doctest: +SKIP
>>> excerpt.array.shape, excerpt.gaps, excerpt.pandas()          # doctest: +SKIP

The archive's list is read when it is opened: data that a recorder acknowledges later appear after `refresh()`. Samples are read
on access, other Python threads run meanwhile, and a missing sample is never replaced.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

from tallycast import _core, _html
from tallycast._errors import ArchiveError, NotStored, of_arguments
from tallycast._excerpt import Excerpt, Stretch
from tallycast._gap_map import GapMap, Hole
from tallycast._moments import ALWAYS, Moment, range_ns, text_of
from tallycast._points import Points, read_points
from tallycast._recording import ALL_INDICES, Damaged, Recording, Segment
from tallycast._run import StoredRun, stored_run, stored_runs
from tallycast._schema import Schema

__all__ = [
    "Archive",
    "ArchiveWarning",
    "Excerpt",
    "GapMap",
    "Hole",
    "Points",
    "Recording",
    "Segment",
    "StoredStream",
    "Stretch",
    "Unreadable",
    "open_archive",
]


class ArchiveWarning(UserWarning):
    """Something in an archive cannot be read; what it held is in the gap map, or in `Archive.unreadable`."""


@dataclass(frozen=True)
class Unreadable:
    """An epoch that cannot be read."""

    #: Its folder, in the archive.
    folder: str
    cause: str


class StoredStream:
    """A stream of a run, with all its recorded epochs."""

    def __init__(self, name: str, recordings: Sequence[Recording]) -> None:
        #: The stream's name.
        self.name = name
        #: Its recordings in the order of their epochs.
        self.recordings = list(recordings)

    @property
    def run(self) -> str:
        """The run."""
        return self.recordings[0].run

    @property
    def epochs(self) -> list[str]:
        """The publisher's recorded epochs."""
        return [recording.epoch for recording in self.recordings]

    @property
    def schemas(self) -> list[Schema]:
        """The schema of each epoch."""
        return [recording.schema for recording in self.recordings]

    @property
    def schema(self) -> Schema:
        """The schema of the newest epoch."""
        return self.recordings[-1].schema

    @property
    def t0_ns(self) -> int:
        """Time of the first stored sample. Units: nanoseconds since 1970 UTC."""
        return min(recording.t0_ns for recording in self.recordings)

    @property
    def t1_ns(self) -> int:
        """End of the last stored sample."""
        return max(recording.t1_ns for recording in self.recordings)

    @property
    def known_ns(self) -> tuple[int, int]:
        """The span of all that is known, stored or missing."""
        known = [recording.known_ns for recording in self.recordings]
        return min(first for first, _ in known), max(end for _, end in known)

    @property
    def samples_stored(self) -> int:
        """Number of stored samples in all epochs."""
        return sum(recording.samples for recording in self.recordings)

    @property
    def size_bytes(self) -> int:
        """Size on disk."""
        return sum(recording.size_bytes for recording in self.recordings)

    @property
    def complete(self) -> bool:
        """Whether every recorded epoch is complete. Cost: reads what is next to holes."""
        return all(recording.complete for recording in self.recordings)

    @property
    def segments(self) -> list[Segment]:
        """The files of all epochs that can be read."""
        return [segment for recording in self.recordings for segment in recording.segments]

    @property
    def gaps(self) -> GapMap:
        """All missing data, like `tallycast query --gaps`. Cost: reads the stream, keeps nothing of it."""
        return self.between().gaps

    def epoch(self, epoch: str) -> StoredStream:
        """Returns one epoch of the stream."""
        found = [recording for recording in self.recordings if isinstance(epoch, str) and recording.epoch == epoch]
        if not found:
            raise NotStored(f"{self.name} has no epoch {epoch}\nit has: {', '.join(self.epochs)}")
        return StoredStream(self.name, found)

    @overload
    def between(self, t0: Moment | None = None, t1: Moment | None = None) -> Excerpt: ...
    @overload
    def between(
        self,
        t0: Moment | None = None,
        t1: Moment | None = None,
        *,
        points: int,
        channel: str | None = None,
        element: int = 0,
    ) -> Points: ...
    @of_arguments()
    def between(
        self,
        t0: Moment | None = None,
        t1: Moment | None = None,
        *,
        points: int | None = None,
        channel: str | None = None,
        element: int = 0,
    ) -> Excerpt | Points:
        """Returns the recording between two times, `t1` excluded; without a time, from the start or to the end.

        A moment is a whole number of nanoseconds since 1970 UTC, a text such as `"2026-11-21T20:15:00Z"`, `"+10s"` after the
        beginning of what is known or `"-30s"` before its end, a `numpy.datetime64`, or a `datetime` or `pandas.Timestamp` with
        a time zone.

        With `points` the range is downsampled to this number of columns with minimum and maximum, as for a plot: of every
        channel, or of `element` (counted from 0) of the sample of one `channel`.
        """
        if points is None:
            return Excerpt(self.recordings, range_ns(t0, t1, self.known_ns, ALWAYS), ALL_INDICES)
        times = range_ns(t0, t1, self.known_ns, self.known_ns)
        return read_points(self.name, self.recordings, times, points, channel, element)

    @of_arguments()
    def samples(self, first: int, end: int, epoch: str | None = None) -> Excerpt:
        """Returns the samples from index `first` up to `end`, which is not included, of one epoch."""
        stream = self if epoch is None else self.epoch(epoch)
        if len(stream.recordings) > 1:
            raise ArchiveError(
                f"{self.name} has {len(self.recordings)} epochs, and each counts its samples from 0\n"
                f"choose one with epoch=: {', '.join(self.epochs)}"
            )
        return stream.recordings[0].samples_between(first, end)

    def _repr_html_(self) -> str:
        rows = ((text_of(it.t0_ns), text_of(it.t1_ns), it.samples, it.size_bytes, it.state, "yes" if it.complete else "", it.epoch) for it in self.recordings)
        listed = _html.table(("from", "to", "samples", "bytes", "state", "complete", "epoch"), rows, f"{self.name}, run {self.run}")
        return listed + _html.channels(self.schema.channels)

    def __repr__(self) -> str:
        epochs = "1 epoch" if len(self.recordings) == 1 else f"{len(self.recordings)} epochs"
        return f"<StoredStream {self.run} {self.name}: {self.samples_stored} samples in {epochs}>"


class Archive(Mapping[str, StoredStream]):
    """The streams of an archive by name, as they were when it was looked at."""

    def __init__(self, path: str | os.PathLike[str], run: str | None = None, damaged: Damaged = "raise") -> None:
        if damaged not in ("raise", "holes"):
            raise ArchiveError(f"invalid damaged={damaged!r}\nuse 'raise' or 'holes'")
        self._path = Path(path).absolute()
        self._only = run
        self._on_damage: Damaged = damaged
        self._core = _core.StoredArchive(self._path)
        #: Epochs that cannot be read.
        self.unreadable: list[Unreadable] = []
        self._streams: dict[tuple[str, str], StoredStream] = {}
        self.refresh()

    @of_arguments()
    def refresh(self) -> Archive:
        """Reads the list of runs and streams again; returns the archive itself."""
        runs = self._core.runs()
        if self._only is not None and self._only not in runs:
            raise NotStored(f"{self._path} has no run {self._only}\nit has: {', '.join(runs) or 'none'}")
        unreadable: list[Unreadable] = []
        recordings: dict[tuple[str, str], list[Recording]] = {}
        for run in runs if self._only is None else [self._only]:
            found, failed = self._core.survey(run)
            for core in found:
                recording = Recording(self._path, core, self._on_damage)
                recordings.setdefault((recording.stream, run), []).append(recording)
            unreadable.extend(Unreadable(str(folder), cause) for folder, cause in failed)
        self.unreadable = unreadable
        self._streams = {key: StoredStream(key[0], recordings[key]) for key in sorted(recordings)}
        self._warn()
        return self

    @property
    def path(self) -> Path:
        """The archive's folder."""
        return self._path

    @property
    def runs(self) -> list[str]:
        """The names of the runs."""
        return self._core.runs() if self._only is None else [self._only]

    @property
    def streams(self) -> list[StoredStream]:
        """Every stream of every run; one that was recorded in several runs once for each."""
        return list(self._streams.values())

    def run(self, name: str) -> Archive:
        """Returns the archive with nothing but one run."""
        return Archive(self._path, name, self._on_damage)

    @property
    def experiment_runs(self) -> list[StoredRun]:
        """The runs of the experiment, such as shots, by their start, in whatever archive run their events were recorded.

        Cost: runs the command `tallycast`.
        """
        return stored_runs(self._path)

    def during(self, id: str) -> StoredRun:
        """Returns the run of the experiment with this id; of `ID@TIME` the one that was open at this time, if several have the id.

            shot = archive.during("shot-17")
            excerpt = archive["lab/probe"].between(*shot.range_ns)

        Raises `NotStored` if there is none, or several. Cost: runs the command `tallycast`.
        """
        return stored_run(self._path, id)

    def __getitem__(self, name: str) -> StoredStream:
        found = [stream for stream in self.streams if isinstance(name, str) and stream.name == name]
        if len(found) > 1:
            runs = [stream.run for stream in found]
            raise ArchiveError(
                f"several runs have the stream {name}: {', '.join(runs)}\nchoose one: archive.run({runs[-1]!r})[{name!r}]"
            )
        if not found:
            names = sorted(set(self))
            known = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
            raise NotStored(f"{self._path} has no stream {name}\nit has: {known or 'none'}")
        return found[0]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name for name, _ in self._streams))

    def __len__(self) -> int:
        return len({name for name, _ in self._streams})

    def __contains__(self, name: object) -> bool:
        return any(stream == name for stream, _ in self._streams)

    def _repr_html_(self) -> str:
        rows = (
            (it.name, it.run, len(it.recordings), text_of(it.t0_ns), text_of(it.t1_ns), it.samples_stored, it.size_bytes)
            for it in self.streams
        )
        return _html.table(("stream", "run", "epochs", "from", "to", "samples", "bytes"), rows, str(self._path))

    def __repr__(self) -> str:
        return f"<Archive {self._path}: {len(self)} streams in {len(self.runs)} runs>"

    def _warn(self) -> None:
        damaged = [cause for stream in self.streams for recording in stream.recordings for cause in recording.damaged]
        if damaged:
            warnings.warn(
                f"{len(damaged)} files of {self._path} are damaged, the first: {damaged[0]}\n"
                "unreadable samples are in the gap map, at stage archive_write; the rest is read",
                ArchiveWarning,
                stacklevel=3,
            )
        if self.unreadable:
            first = self.unreadable[0]
            warnings.warn(
                f"{len(self.unreadable)} epochs of {self._path} cannot be read, the first: {first.folder}: {first.cause}",
                ArchiveWarning,
                stacklevel=3,
            )


@of_arguments()
def open_archive(path: str | os.PathLike[str], run: str | None = None, *, damaged: Damaged = "raise") -> Archive:
    """Opens the archive in a folder, or one run of it.

    Raises `ArchiveError` if the folder is no archive, or one of a later version. An archive may be read while it is recorded.

    Damage is reported at once by an `ArchiveWarning`. For samples that were stored and can no longer be read,
    `DamagedArchive` is raised; with `damaged="holes"` they are missing like any other, and the gap map names the file.
    """
    return Archive(path, run, damaged)
