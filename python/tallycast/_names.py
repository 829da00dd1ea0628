"""Names that differ from each other."""

from __future__ import annotations

from collections.abc import Container


def free_name(name: str, taken: Container[str], ending: str = "", most: int | None = None) -> str:
    """Returns the name with its ending, or if that is taken one with a number; of at most so many characters.

    >>> free_name("u", {"u", "u_2"})
    'u_3'
    >>> free_name("voltage", {"vo_raw"}, "_raw", most=6)
    'v_raw_2'
    """
    tail, number = ending, 2
    while (free := _ending_in(name, tail, most)) in taken:
        tail, number = f"{ending}_{number}", number + 1
    return free


def _ending_in(name: str, tail: str, most: int | None) -> str:
    return f"{name if most is None else name[: max(1, most - len(tail))]}{tail}"
