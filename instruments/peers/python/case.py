"""A measurement case: system, block size, duration."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

ELEMENT_BYTES = 4


@dataclass(frozen=True)
class Case:
    """One measurement between a sender and a reader."""

    system: str
    """One of ``systems.SYSTEMS``."""
    samples: int
    """Samples per block, in one channel of ``f4``."""
    seconds: float = 0.5
    """Duration of sending."""
    is_paced: bool = True
    """True if the sender is paced so that nothing is lost, by the system's own means or by the progress page."""
    is_summed: bool = False
    """True if the reader sums every byte it receives."""
    message_bytes: int = 0
    """Size of one message, if delays are measured."""
    messages: int = 0
    """Number of delays measured."""
    interval_ns: int = 1_000_000
    """Interval between two messages."""
    is_spinning: bool = False
    """True if the reader busy-polls instead of sleeping."""

    @property
    def block_bytes(self) -> int:
        """Returns the size of one block."""
        return self.samples * ELEMENT_BYTES

    def block(self) -> npt.NDArray[np.float32]:
        """Returns the block that is sent repeatedly."""
        return np.random.default_rng(7).random(self.samples, np.float32)

    def sum_of_words(self) -> int:
        """Returns the sum of a block's 64-bit words, as wrapping unsigned numbers."""
        return int(self.block().view(np.uint64).sum())

    def to_text(self) -> str:
        """Serialises the case for another process."""
        return json.dumps(asdict(self))

    @classmethod
    def of_text(cls, text: str) -> Case:
        """Parses the output of `to_text`."""
        return cls(**json.loads(text))
