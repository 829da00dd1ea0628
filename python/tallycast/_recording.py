"""One recorded epoch of a stream, and its files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tallycast import _core
from tallycast._errors import ArchiveError, DamagedArchive, of_arguments
from tallycast._excerpt import Excerpt
from tallycast._gap_map import Hole
from tallycast._moments import ALWAYS, Moment, range_ns, text_of
from tallycast._schema import Schema

#: Treatment of samples that were stored and cannot be read: an error, or holes like any other.
Damaged = Literal["raise", "holes"]

#: All indices there can be.
ALL_INDICES = (0, 2**64 - 1)


@dataclass(frozen=True)
class Segment:
    """One file of a recording."""

    #: Its number in its epoch, from 1.
    number: int
    first_index: int
    next_index: int
    #: Time of its first sample. Units: nanoseconds since 1970 UTC.
    t0_ns: int
    #: End of its last sample.
    t1_ns: int
    samples: int
    #: Its size on disk.
    size_bytes: int


class Recording:
    """One recorded epoch of a stream, as it was when the archive was looked at."""

    def __init__(self, path: Path, core: _core.StoredRecording, damaged: Damaged = "raise") -> None:
        self._path = path
        self._core = core
        self._on_damage: Damaged = damaged
        self._told: dict[str, Any] = json.loads(core.tell())

    @property
    def run(self) -> str:
        """The run."""
        return str(self._told["run"])

    @property
    def stream(self) -> str:
        """The stream's name."""
        return str(self._told["stream"])

    @property
    def epoch(self) -> str:
        """The publisher's epoch: start in nanoseconds since 1970 UTC, a dash, 64 random bits."""
        return str(self._told["epoch"])

    @property
    def station(self) -> str:
        """Address the stream came from."""
        return str(self._told["description"]["station"])

    @property
    def schema(self) -> Schema:
        """The schema of the samples."""
        schema: Schema = self._core.schema
        return schema

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's dtype of the elements."""
        return self._core.dtype

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape of one sample: `(channels,)`, or that of the only channel; of channels of several shapes `(elements,)`."""
        return tuple(self._core.sample_shape)

    @property
    def rate(self) -> Fraction:
        """Samples per second."""
        rate = self._told["description"]["rate"]
        return Fraction(rate["numerator"], rate["denominator"])

    @property
    def state(self) -> Literal["open", "closed", "cut"]:
        """State of the recording: `open` (continues, or its recorder died), `closed` (complete), `cut` (ended before the epoch)."""
        state: Literal["open", "closed", "cut"] = self._told["state"]
        return state

    @property
    def attended(self) -> bool:
        """True while a recorder writes this run: otherwise an open recording is that of a recorder that died."""
        return bool(self._told["attended"])

    @property
    def complete(self) -> bool:
        """Whether the epoch has ended and nothing is missing of it, as `tallycast query` says. Cost: reads what is next to holes."""
        return self._core.is_complete()

    @property
    def first_index(self) -> int:
        """Index of the first sample of the recorder's account."""
        return int(self._told["first_index"])

    @property
    def next_index(self) -> int:
        """Index behind the last stored sample."""
        return int(self._told["stored_index"])

    @property
    def t0_ns(self) -> int:
        """Time of the first stored sample. Units: nanoseconds since 1970 UTC."""
        return int(self._told["t0_ns"])

    @property
    def t1_ns(self) -> int:
        """End of the last stored sample."""
        return int(self._told["t1_ns"])

    @property
    def known_ns(self) -> tuple[int, int]:
        """The span of all that is known, stored or missing."""
        first, end = self._told["known_ns"]
        return int(first), int(end)

    @property
    def samples(self) -> int:
        """Number of stored samples."""
        return int(self._told["samples"])

    @property
    def size_bytes(self) -> int:
        """Size on disk."""
        return int(self._told["size_bytes"])

    @property
    def damaged(self) -> list[str]:
        """Damaged files, with the damage of each. Unreadable samples are in the gap map."""
        return list(self._told["damaged"])

    @property
    def account(self) -> dict[str, Any]:
        """Account of the archive and of its reader, as last written (`docs/reference/formats/archive.md`); empty if there is none."""
        return dict(self._told["account"] or {})

    @property
    def earlier_accounts(self) -> list[dict[str, Any]]:
        """Accounts of the recorders before the last."""
        return [dict(account or {}) for account in self._told["earlier_accounts"]]

    @property
    def segments(self) -> list[Segment]:
        """The files that can be read, in the order of the stream."""
        return [Segment(*row) for row in self._core.segments()]

    @property
    def gap_records(self) -> list[dict[str, Any]]:
        """Every record of the gap map, also of samples that are there in part, as `docs/reference/formats/archive.md` has them."""
        return list(json.loads(self._core.gap_records()))

    @of_arguments()
    def between(self, t0: Moment | None = None, t1: Moment | None = None) -> Excerpt:
        """Returns the data between two moments, `t1` not included; see `StoredStream.between`."""
        return Excerpt([self], range_ns(t0, t1, self.known_ns, ALWAYS), ALL_INDICES)

    @of_arguments()
    def samples_between(self, first: int, end: int) -> Excerpt:
        """Returns the samples from index `first` up to `end`, which is not included."""
        if not 0 <= first < end:
            raise ArchiveError(f"there is no sample from {first} up to {end}\nchoose indices from {self.first_index} up to {self.next_index}")
        return Excerpt([self], ALWAYS, (first, min(end, ALL_INDICES[1])))

    def means_the_same_as(self, other: Recording) -> bool:
        """Returns whether both have the same channels, dtype and rate, so that their rows fit in one array."""
        keys = ("dtype", "rate", "channels")
        return all(self._told["description"][key] == other._told["description"][key] for key in keys)

    def __reduce__(self) -> tuple[Any, ...]:
        # Elsewhere, such as at a worker of Dask, the archive is opened again.
        return _reopen, (str(self._path), self.run, self.stream, self.epoch, self.next_index, self._on_damage)

    def refuse_damage(self, holes: Sequence[Hole]) -> None:
        """Raises `DamagedArchive` if samples of the holes were stored and cannot be read, unless such holes are accepted."""
        damaged = [hole for hole in holes if hole.damage is not None]
        if damaged and self._on_damage == "raise":
            raise DamagedArchive(
                f"stored samples of {self.stream} cannot be read, the first at {damaged[0].first_index}: {damaged[0].damage}\n"
                f"read around them: open_archive(…, damaged='holes'); list the damage: tallycast archive verify {self._path}"
            )

    def __repr__(self) -> str:
        return (
            f"<Recording {self.run} {self.stream} epoch {self.epoch}: {self.samples} samples, "
            f"{text_of(self.t0_ns)} to {text_of(self.t1_ns)}, {self.state}>"
        )


@lru_cache(maxsize=32)
def _reopen(path: str, run: str, stream: str, epoch: str, next_index: int, damaged: Damaged) -> Recording:
    """Finds a recording again; `next_index` distinguishes a longer version."""
    found, _ = _core.StoredArchive(Path(path)).survey(run)
    for recording in (Recording(Path(path), core, damaged) for core in found):
        if (recording.stream, recording.epoch) == (stream, epoch):
            return recording
    raise ArchiveError(f"{path} has no epoch {epoch} of {stream} in run {run}\nopen the archive again")
