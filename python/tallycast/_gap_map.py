"""The gap map: missing samples, the stages at which they were lost, and the evidence."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, overload

from tallycast import _html
from tallycast._moments import text_of


class Hole:
    """Missing samples between two rows, before the first or behind the last, and why they are missing.

    Every element has one reason: `elements == sum(lost.values()) + unexplained + unsettled + reader_absent`.
    """

    __slots__ = ("_json", "epoch")

    def __init__(self, found: dict[str, Any], epoch: str) -> None:
        self._json = found
        #: The publisher's epoch.
        self.epoch = epoch

    @property
    def first_index(self) -> int:
        """Index of the first missing sample."""
        return int(self._json["first_index"])

    @property
    def samples(self) -> int:
        """The number of missing samples; 0 for an absence that is not followed by a sample, so that the number is unknown."""
        return int(self._json["samples"])

    @property
    def next_index(self) -> int:
        """Index of the first sample behind the hole."""
        return self.first_index + self.samples

    @property
    def elements(self) -> int:
        """Number of missing elements."""
        return sum(self.lost.values()) + self.unexplained + self.unsettled + self.reader_absent

    @property
    def t0_ns(self) -> int:
        """Time of the first missing sample. Units: nanoseconds since 1970 UTC."""
        return int(self._json["from_ns"])

    @property
    def t1_ns(self) -> int | None:
        """The time of the first sample after the hole; `None` while it is unknown."""
        end = self._json["to_ns"]
        return None if end is None else int(end)

    @property
    def lost(self) -> dict[str, int]:
        """Lost elements by stage."""
        return dict(self._json["lost"])

    @property
    def unexplained(self) -> int:
        """Elements for which no evidence came in time, or of which no record speaks."""
        return int(self._json["unexplained"])

    @property
    def unsettled(self) -> int:
        """Elements that still wait for evidence."""
        return int(self._json["unsettled"])

    @property
    def reader_absent(self) -> int:
        """Elements from a time without a recorder, or without a publisher."""
        return int(self._json["reader_absent"])

    @property
    def stage(self) -> str | None:
        """The stage with the largest share; `None` if most is unexplained, unsettled, or from a time without a recorder."""
        if not self.lost:
            return None
        stage, count = max(self.lost.items(), key=lambda item: item[1])
        return stage if count >= max(self.unexplained, self.unsettled, self.reader_absent) else None

    @property
    def records(self) -> list[dict[str, Any]]:
        """The gap records that speak of it, as `docs/reference/formats/archive.md` has them."""
        return list(self._json["gaps"])

    @property
    def damage(self) -> str | None:
        """Damaged file, if samples of the hole were stored and can no longer be read."""
        # No recorder noted these: they are made while reading.
        found = (line for record in self._json["gaps"] if record["session"] == 0 for line in record["evidence"])
        return next(found, None)

    @property
    def evidence(self) -> list[str]:
        """The evidence for the stages, as text."""
        return [line for record in self._json["gaps"] for line in record["evidence"]]

    def json(self) -> dict[str, Any]:
        """Returns the hole as `tallycast query --gaps --json` prints it."""
        return dict(self._json)

    @property
    def reasons(self) -> dict[str, int]:
        """Number of missing elements by reason: the stages of `lost`, and `unexplained`, `unsettled`, `reader_absent`."""
        rest = {"unexplained": self.unexplained, "unsettled": self.unsettled, "reader_absent": self.reader_absent}
        return {**self.lost, **{name: count for name, count in rest.items() if count}}

    def __repr__(self) -> str:
        reasons = self.reasons
        told = ", ".join(f"{name} {count}" for name, count in reasons.items()) or "of unknown extent"
        return f"<Hole {self.first_index}..{self.next_index}: {told}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hole) and (self._json, self.epoch) == (other._json, other.epoch)

    def __hash__(self) -> int:
        return hash((self.epoch, self.first_index, self.samples))


class GapMap(Sequence[Hole]):
    """The holes of an excerpt, in the order of the stream."""

    __slots__ = ("_holes",)

    def __init__(self, holes: Iterable[Hole]) -> None:
        self._holes = tuple(holes)

    @overload
    def __getitem__(self, place: int) -> Hole: ...
    @overload
    def __getitem__(self, place: slice) -> GapMap: ...
    def __getitem__(self, place: int | slice) -> Hole | GapMap:
        return GapMap(self._holes[place]) if isinstance(place, slice) else self._holes[place]

    def __len__(self) -> int:
        return len(self._holes)

    @property
    def samples(self) -> int:
        """Number of missing samples in all holes."""
        return sum(hole.samples for hole in self._holes)

    @property
    def elements(self) -> int:
        """Number of missing elements in all holes."""
        return sum(hole.elements for hole in self._holes)

    @property
    def lost(self) -> dict[str, int]:
        """Lost elements of all holes by stage."""
        total: Counter[str] = Counter()
        for hole in self._holes:
            total.update(hole.lost)
        return dict(total)

    @property
    def unexplained(self) -> int:
        """Elements of all holes that no evidence explains."""
        return sum(hole.unexplained for hole in self._holes)

    def columns(self) -> dict[str, list[Any]]:
        """Returns the map as columns, of which any table can be made: `pandas.DataFrame(gaps.columns())`.

        A column `lost.STAGE` for each stage at which something was lost.
        """
        stages = sorted(self.lost)
        columns: dict[str, list[Any]] = {
            "epoch": [hole.epoch for hole in self._holes],
            "first_index": [hole.first_index for hole in self._holes],
            "samples": [hole.samples for hole in self._holes],
            "from_ns": [hole.t0_ns for hole in self._holes],
            "to_ns": [hole.t1_ns for hole in self._holes],
        }
        for stage in stages:
            columns[f"lost.{stage}"] = [hole.lost.get(stage, 0) for hole in self._holes]
        for name in ("unexplained", "unsettled", "reader_absent"):
            columns[name] = [getattr(hole, name) for hole in self._holes]
        columns["evidence"] = ["; ".join(hole.evidence) for hole in self._holes]
        return columns

    def json(self) -> list[dict[str, Any]]:
        """Returns the holes as `tallycast query --gaps --json` prints them."""
        return [hole.json() for hole in self._holes]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GapMap) and self._holes == other._holes

    def __hash__(self) -> int:
        return hash(self._holes)

    def _repr_html_(self) -> str:
        rows = (
            (it.first_index, it.samples, text_of(it.t0_ns), "" if it.t1_ns is None else text_of(it.t1_ns), _html.counts(it.reasons))
            for it in self._holes
        )
        head = ("first sample", "samples", "from", "to", "missing elements")
        return _html.table(head, rows, f"{_html.counted(len(self), 'hole')}, {_html.counted(self.samples, 'sample')} missing")

    def __repr__(self) -> str:
        return f"<GapMap of {len(self)} holes, {self.samples} samples missing>"


def holes_of(text: str, epoch: str) -> list[Hole]:
    """Reads holes in the form of the Rust core."""
    return [Hole(found, epoch) for found in json.loads(text)]


class PlainGaps(list[dict[str, Any]]):
    """A gap map as plain lists and dictionaries, for the metadata of other libraries' objects.

    pandas copies the metadata of a frame to all that is made of it; this list is handed on instead, however long it is.
    """

    def __deepcopy__(self, memo: dict[int, Any]) -> PlainGaps:
        return self

    def __copy__(self) -> PlainGaps:
        return self
