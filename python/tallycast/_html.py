"""Small tables for notebooks: HTML without scripts; every text is escaped, every table bounded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Generic, TypeVar

#: Maximum number of rows of a table; what follows is counted.
MAX_ROWS = 60

T = TypeVar("T")


def table(head: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> str:
    """Returns a table; numbers are on the right, with their digits in groups."""
    listed = list(rows)
    lines = [f"<caption>{escape(caption)}</caption>"] if caption else []
    if head:
        lines.append(f"<thead><tr>{''.join(f'<th>{escape(name)}</th>' for name in head)}</tr></thead>")
    lines += [f"<tr>{''.join(map(_cell, row))}</tr>" for row in listed[:MAX_ROWS]]
    if len(listed) > MAX_ROWS:
        lines.append(f'<tr><td colspan="{max(len(head), 1)}">and {len(listed) - MAX_ROWS:,} more</td></tr>')
    return f"<table>{''.join(lines)}</table>"


def counts(of: dict[str, int]) -> str:
    """Returns counts by name as text: `injected 12, reader_lag 3`."""
    return ", ".join(f"{name} {count:,}" for name, count in of.items() if count) or "0"


def _cell(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f'<td style="text-align:right">{value:,}</td>'
    return f'<td style="text-align:left">{escape(str(value))}</td>'


class Listing(list[T], Generic[T]):
    """A list that a notebook shows as a table."""

    _head: Sequence[str] = ()

    def _row(self, it: T) -> Sequence[object]:
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return table(self._head, map(self._row, self))
