"""Small tables for notebooks: HTML without scripts; every text is escaped, every table bounded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from tallycast._schema import Channel

#: Maximum number of rows of a table; what follows is counted.
MAX_ROWS = 60

T = TypeVar("T")


def table(head: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> str:
    """Returns a table; numbers are on the right, with their digits in groups, and a heading is where its column is."""
    listed = list(rows)
    lines = [f"<caption>{escape(caption)}</caption>"] if caption else []
    if head:
        below = listed[0] if listed else head
        names = (f'<th style="{_style(value)}">{escape(name)}</th>' for name, value in zip(head, below))
        lines.append(f"<thead><tr>{''.join(names)}</tr></thead>")
    lines += [f"<tr>{''.join(map(_cell, row))}</tr>" for row in listed[:MAX_ROWS]]
    if len(listed) > MAX_ROWS:
        lines.append(f'<tr><td colspan="{max(len(head), 1)}">and {len(listed) - MAX_ROWS:,} more</td></tr>')
    return f"<table>{''.join(lines)}</table>"


def channels(of: Iterable[Channel]) -> str:
    """Returns a table of channels."""
    rows = [(it.name, it.unit, "×".join(map(str, it.shape)) or "1") for it in of]
    return table(("channel", "unit", "elements"), rows)


def counted(count: int, what: str) -> str:
    """Returns a count with its noun.

    >>> counted(1, "hole"), counted(1_200, "hole")
    ('1 hole', '1,200 holes')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def counts(of: dict[str, int]) -> str:
    """Returns counts by name as text: `injected 12, reader_lag 3`."""
    return ", ".join(f"{name} {count:,}" for name, count in of.items() if count) or "0"


def _cell(value: object) -> str:
    return f'<td style="{_style(value)}">{f"{value:,}" if _is_count(value) else escape(str(value))}</td>'


def _style(value: object) -> str:
    # A time or an epoch in two lines is hard to compare with the next.
    return f"text-align:{'right' if _is_count(value) else 'left'};white-space:nowrap"


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


class Listing(list[T], Generic[T]):
    """A list that a notebook shows as a table."""

    _head: Sequence[str] = ()

    def _row(self, it: T) -> Sequence[object]:
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return table(self._head, map(self._row, self))
