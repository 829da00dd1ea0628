"""Upper limits of this machine: summing memory, copying it, and both, by NumPy in one thread."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

# Duration of each measurement. Units: seconds.
DURATION = 0.2


def rates(size_bytes: int, among_bytes: int) -> dict[str, float]:
    """Returns GB/s for contiguous blocks of ``size_bytes`` within ``among_bytes`` of memory."""
    blocks = np.ones((max(among_bytes // size_bytes, 1), size_bytes // 8), np.uint64)
    own = np.empty(size_bytes // 8, np.uint64)
    return {
        "sum": _rate(size_bytes, lambda index: np.add.reduce(blocks[index % len(blocks)])),
        "copy": _rate(size_bytes, lambda index: np.copyto(own, blocks[index % len(blocks)])),
        "copy_and_sum": _rate(size_bytes, lambda index: _copy_and_sum(own, blocks[index % len(blocks)])),
    }


def _copy_and_sum(own: np.ndarray, block: np.ndarray) -> np.uint64:
    np.copyto(own, block)
    return np.add.reduce(own)


def _rate(size_bytes: int, do: Callable[[int], object]) -> float:
    begun, count = time.perf_counter(), 0
    while (taken := time.perf_counter() - begun) < DURATION:
        do(count)
        count += 1
    return count * size_bytes / taken / 1e9
