"""Gaps and accounts: the outcome of every sample."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tallycast import _html


@dataclass(frozen=True)
class Gap:
    """A missing run of samples: where it is, where it was lost, and how that is known.

    ``lost`` counts elements by stage, ``unexplained`` those without a known stage, ``unsettled`` those that wait for
    evidence. ``evidence`` has the names of the kernel or the protocol. Times are nanoseconds since 1970 UTC: those of the
    first missing sample, and of the first one behind the gap.
    """

    stream: str
    epoch: str
    kind: str
    first_index: int
    samples: int
    elements: int
    t0_ns: int
    t1_ns: int
    lost: Mapping[str, int]
    unexplained: int
    unsettled: int
    settled: bool
    evidence: tuple[str, ...]

    @property
    def stage(self) -> str:
        """The stage that lost most of it, or ``unexplained``."""
        if not self.lost:
            return "unexplained"
        return max(self.lost, key=lambda stage: self.lost[stage])

    @classmethod
    def _of(cls, parts: Mapping[str, Any], stream: str = "", epoch: str = "") -> Gap:
        return cls(
            parts.get("stream", stream), parts.get("epoch", epoch), parts["kind"], parts["first_index"], parts["samples"],
            parts["elements"], parts.get("from_ns", 0), parts.get("to_ns", 0), dict(parts["lost"]), parts["unexplained"],
            parts["unsettled"], parts["settled"], tuple(parts["evidence"]),
        )  # fmt: skip


class Account(Mapping[str, Any]):
    """A reader's account of one epoch of one stream.

    Reads like the JSON object of ``docs/reference/formats/account.md``; the most used keys have properties. Counts are elements
    unless stated otherwise: ``sent = delivered + sum(lost) + unexplained`` once nothing is in flight or unsettled.
    """

    def __init__(self, parts: Mapping[str, Any]) -> None:
        self._parts = parts

    def __getitem__(self, key: str) -> Any:
        return self._parts[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    @property
    def stream(self) -> str:
        """The stream's name."""
        return str(self["stream"])

    @property
    def epoch(self) -> str:
        """The publisher's epoch."""
        return str(self["epoch"])

    @property
    def reader(self) -> str:
        """Name of the reader."""
        return str(self["reader"])

    @property
    def reach(self) -> str:
        """Reach of the data: ``shm`` or ``udp``."""
        return str(self["leg"])

    @property
    def state(self) -> str:
        """``open``, ``closed`` (the publisher's end is known), ``cut`` (this reader left) or ``unconfirmed``."""
        return str(self["state"])

    @property
    def balanced(self) -> bool:
        """True if the law holds: sent = delivered + lost + unexplained + unsettled + in flight."""
        return bool(self["balanced"])

    @property
    def closed(self) -> bool:
        """True if it has ended and nothing is pending."""
        return bool(self["closed"])

    @property
    def explained(self) -> bool:
        """True if every missing element has a stage."""
        return bool(self["explained"])

    @property
    def sent(self) -> int:
        """Elements that the publisher sent since this reader joined, as far as is known."""
        elements = self["elements"]
        return int((elements["next"] - elements["first"]) * elements["per_sample"])

    @property
    def delivered(self) -> int:
        """Elements that this reader was given."""
        return int(self["elements"]["delivered"])

    @property
    def lost(self) -> dict[str, int]:
        """Elements lost, by stage."""
        return dict(self["elements"]["lost"])

    @property
    def unexplained(self) -> int:
        """Lost elements whose stage is unknown."""
        return int(self["elements"]["unexplained"])

    @property
    def gaps(self) -> list[Gap]:
        """Every gap, with the evidence so far."""
        return [Gap._of(gap, self.stream, self.epoch) for gap in self["gaps"]]

    def __repr__(self) -> str:
        lost = ", ".join(f"{count} {stage}" for stage, count in self.lost.items()) or "nothing"
        return (
            f"<Account of {self.stream}: {self.state}, {self.sent} elements sent, {self.delivered} delivered, "
            f"lost {lost}, {self.unexplained} unexplained>"
        )


    def _repr_html_(self) -> str:
        rows: list[tuple[str, object]] = [
            ("state", self.state),
            ("reader", self.reader),
            ("epoch", self.epoch),
            ("sent", self.sent),
            ("delivered", self.delivered),
            *((f"lost: {stage}", count) for stage, count in self.lost.items()),
            ("unexplained", self.unexplained),
        ]
        gaps = self.gaps
        shown = _html.table((), rows, f"{self.stream} (elements)")
        if gaps:
            shown += _html.table(_GAP_HEAD, map(_gap_row, gaps), f"{len(gaps):,} gaps")
        return shown


_GAP_HEAD = ("first sample", "samples", "stage", "evidence")


def _gap_row(gap: Gap) -> tuple[object, ...]:
    return gap.first_index, gap.samples, gap.stage, "; ".join(gap.evidence)


class Accounts(_html.Listing[Account]):
    """Accounts in a list, which a notebook shows as a table."""

    _head = ("stream", "reader", "state", "sent", "delivered", "lost", "unexplained", "gaps")

    def _row(self, it: Account) -> tuple[object, ...]:
        return it.stream, it.reader, it.state, it.sent, it.delivered, _html.counts(it.lost), it.unexplained, len(it.gaps)


def accounts_of(text: str) -> list[Account]:
    """Returns accounts from their JSON."""
    return Accounts(Account(parts) for parts in json.loads(text))


def gaps_of(text: str) -> list[Gap]:
    """Returns gaps from their JSON."""
    return [Gap._of(parts) for parts in json.loads(text)]
