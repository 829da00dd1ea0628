"""What is measured: which system, how much at once, for how long."""

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
    """Which of ``systems.SYSTEMS``."""
    samples: int
    """Of each block, one channel of ``f4``."""
    seconds: float = 0.5
    """How long is sent."""
    is_paced: bool = True
    """Whether the sender holds back so that nothing is lost, by what the system offers or by the page."""
    is_summed: bool = False
    """Whether the reader adds up every byte it is given."""
    message_bytes: int = 0
    """Of one message, where delays are measured."""
    messages: int = 0
    """How many delays are measured."""
    interval_ns: int = 1_000_000
    """Between two messages."""
    is_spinning: bool = False
    """Whether the reader looks again and again instead of sleeping."""

    @property
    def block_bytes(self) -> int:
        """What one block takes."""
        return self.samples * ELEMENT_BYTES

    def block(self) -> npt.NDArray[np.float32]:
        """Makes the block that is sent over and over."""
        return np.random.default_rng(7).random(self.samples, np.float32)

    def sum_of_words(self) -> int:
        """The sum of a block's 64-bit words, as unsigned numbers that wrap."""
        return int(self.block().view(np.uint64).sum())

    def to_text(self) -> str:
        """Writes it for another process."""
        return json.dumps(asdict(self))

    @classmethod
    def of_text(cls, text: str) -> Case:
        """Reads what `to_text` wrote."""
        return cls(**json.loads(text))
