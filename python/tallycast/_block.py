"""Methods of ``Block`` that are written in Python."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tallycast._account import Account, Gap, gaps_of

if TYPE_CHECKING:
    from tallycast._core import Block


def gaps(block: Block) -> list[Gap]:
    """Returns the gaps before the block."""
    return gaps_of(block._gaps()) if block.has_gaps else []


def account(block: Block) -> Account | None:
    """Returns the running account of the block's epoch."""
    parts = json.loads(block._account())
    return None if parts is None else Account(parts)


def channel(block: Block, name: str) -> npt.NDArray[Any]:
    """Returns the elements of one channel, a view."""
    schema = block.schema
    flat = block.array.reshape(len(block), schema.elements_per_sample)
    return flat[:, schema.place(name)].reshape(len(block), *schema.channel(name).shape)


def values(block: Block) -> npt.NDArray[Any]:
    """Returns the samples in their channels' units."""
    schema = block.schema
    kind = np.complex128 if schema.dtype.kind == "c" else np.float64
    made = block.array.reshape(len(block), schema.elements_per_sample).astype(kind)
    for of in schema.channels:
        if (of.scale, of.offset) != (1.0, 0.0):
            place = schema.place(of.name)
            made[:, place] = made[:, place] * of.scale + of.offset
    return made.reshape(block.array.shape)


def records(block: Block) -> npt.NDArray[Any]:
    """Returns the samples as a structured array; a view where all fields are of the stream's dtype."""
    schema = block.schema
    dtype = schema.record_dtype
    flat = block.array.reshape(len(block), schema.elements_per_sample)
    if all(dtype[name].base == schema.dtype for name in dtype.names or ()):
        return flat.view(dtype).reshape(len(block))
    made = np.empty(len(block), dtype)
    for of in schema.channels:
        made[of.name] = flat[:, schema.place(of.name)].reshape(len(block), *of.shape)
    return made


def text(block: Block) -> str:
    """Returns a block in one line."""
    missing = f", {len(block.gaps)} gaps before it" if block.has_gaps else ""
    shape = list(block.array.shape)
    return f"<Block of {block.stream}: {shape} {block.schema.dtype} from sample {block.first_index}{missing}>"
