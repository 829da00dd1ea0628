"""EDF and BDF files, also EDF+ and BDF+ without interruptions, by pyEDFlib: a stream for each sampling frequency.

Samples are the file's digits, with the physical range of each signal as scale and offset.

Source: Kemp et al. (1992), "A simple format for exchange of digitized polygraphic recordings"; edfplus.info.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from tallycast._packages import needed
from tallycast._schema import Channel
from tallycast.readers._group import Column, FileStream, Table, rate_of_hz, utc_ns

if TYPE_CHECKING:
    from tallycast._scaling import Array
    from tallycast.readers import Request


def streams(request: Request) -> Iterator[FileStream]:
    """Lists the streams of a file."""
    request.no_time("EDF")
    pyedflib = needed("pyedflib", "edf", "pyEDFlib")
    file = pyedflib.EdfReader(str(request.path))
    # In units of 100 ns (EDFlib); the microseconds of `getStartdatetime` take them for 10 ns.
    start_ns = utc_ns(file.getStartdatetime().replace(microsecond=0)) + int(file.starttime_subsecond) * 100
    dtype = np.dtype("<i4" if file.filetype in (pyedflib.FILETYPE_BDF, pyedflib.FILETYPE_BDFPLUS) else "<i2")
    alike: dict[tuple[Fraction | None, int], list[int]] = {}
    for place, samples in enumerate(file.getNSamples().tolist()):
        rate = rate_of_hz(float(file.getSampleFrequency(place)))
        alike.setdefault((rate, samples), []).append(place)
    for number, ((rate, samples), places) in enumerate(alike.items()):
        name = request.path.stem if len(alike) == 1 else f"{request.path.stem}/{file.getLabel(places[0])}"
        columns = [_column(file, place, dtype) for place in places]
        yield from Table(name, columns, samples, rate, start_ns).streams()


def _column(file: Any, place: int, dtype: np.dtype[Any]) -> Column:
    low, high = file.getDigitalMinimum(place), file.getDigitalMaximum(place)
    least, most = file.getPhysicalMinimum(place), file.getPhysicalMaximum(place)
    scale = (most - least) / (high - low)
    channel = Channel(file.getPhysicalDimension(place).strip(), (), scale, least - scale * low, file.getLabel(place).strip())

    def read(first: int, end: int) -> Array:
        digits: Array = file.readSignal(place, first, end - first, digital=True)
        return digits.astype(dtype)

    return Column(channel, dtype, read)
