"""Names that differ from each other."""

from __future__ import annotations

from collections.abc import Container


def free_name(name: str, taken: Container[str]) -> str:
    """Returns the name, or if it is taken one with a number.

    >>> free_name("u", {"u", "u_2"})
    'u_3'
    """
    free, number = name, 2
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    return free
