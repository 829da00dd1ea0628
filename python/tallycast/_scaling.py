"""Elements as values in their channels' units."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from tallycast._schema import Channel

Array = npt.NDArray[Any]


def is_scaled(channel: Channel) -> bool:
    """Returns whether a channel's elements differ from its values."""
    return (channel.scale, channel.offset) != (1.0, 0.0)


def scaled(elements: Array, missing: npt.NDArray[np.bool_] | None, channel: Channel) -> Array:
    """Returns elements as values in their channel's unit, NaN where one never arrived."""
    # A signalling NaN among the elements is a value like any other.
    with np.errstate(invalid="ignore"):
        values = elements.astype(np.complex128 if elements.dtype.kind == "c" else np.float64)
        if is_scaled(channel):
            values = values * channel.scale + channel.offset
    if missing is not None:
        values[missing] = np.nan
    return values
