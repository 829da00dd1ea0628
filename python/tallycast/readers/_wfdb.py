"""WFDB records (PhysioNet), named by their header `.hea`, by the package wfdb: a stream for each sampling frequency.

Samples are the converter's digits, with gain and baseline as scale and offset. Where only some channels lack a sample, and in
records of several segments, they are values in their units with NaN. A sample that all channels lack is a gap.

Source: PhysioNet, "WFDB Applications Guide", header(5) and signal(5): the least number of a format stands for no sample.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tallycast._errors import FileError
from tallycast._packages import needed
from tallycast._samples import runs
from tallycast._schema import Channel
from tallycast.readers._group import BLOCK_BYTES, FileBlock, FileStream, distinct, rate_of_hz, utc_ns

if TYPE_CHECKING:
    from tallycast._scaling import Array
    from tallycast.readers import Request

#: Bits of a sample by format; others have no number for a missing sample.
BITS = {"80": 8, "310": 10, "311": 10, "212": 12, "16": 16, "61": 16, "160": 16, "516": 16, "24": 24, "524": 24, "32": 32}
#: Gain of a signal whose header has none.
DEFAULT_GAIN = 200.0


def streams(request: Request) -> Iterator[FileStream]:
    """Lists the streams of a record."""
    request.no_time("a WFDB record")
    record = _Record(needed("wfdb", "wfdb"), str(request.path.with_suffix("")))
    frames = record.header.samps_per_frame
    for per_frame in sorted(set(frames)):
        yield record.stream([place for place, count in enumerate(frames) if count == per_frame], per_frame)


class _Record:
    def __init__(self, wfdb: Any, path: str) -> None:
        self._wfdb, self._path = wfdb, path
        header = wfdb.rdheader(path, rd_segments=True)
        self._is_divided = isinstance(header, wfdb.MultiRecord)
        # Of a record of several segments the signals stand in one that is read.
        self.header = wfdb.rdrecord(path, sampto=1, smooth_frames=False) if self._is_divided else header
        self._frames, self._start = header.sig_len, header.base_datetime
        if not self._frames or not self.header.n_sig:
            raise FileError(f"{path}.hea describes no samples")

    def stream(self, places: Sequence[int], per_frame: int) -> FileStream:
        """Returns the signals at these places as a stream."""
        header = self.header
        rate = rate_of_hz(float(header.fs) * per_frame)
        as_values = self._is_divided or self._is_partial(places)
        gains = [header.adc_gain[place] or DEFAULT_GAIN for place in places]
        channels = distinct([
            Channel(
                header.units[place] or "mV",
                scale=1.0 if as_values else 1 / gain,
                offset=0.0 if as_values else -header.baseline[place] / gain,
                name=header.sig_name[place] or f"signal{place}",
            )
            for place, gain in zip(places, gains)
        ])  # fmt: skip
        is_wide = any(BITS.get(str(header.fmt[place]), 32) > 16 for place in places) if header.fmt else True
        dtype = np.dtype("<f8") if as_values else np.dtype("<i4" if is_wide else "<i2")

        def read() -> Iterator[FileBlock]:
            missing = 0
            for rows, absent in self._blocks(places, as_values):
                is_absent: npt.NDArray[np.bool_] = np.all(absent, axis=1)
                for first, end, is_there in runs(~is_absent):
                    if is_there:
                        yield FileBlock(np.ascontiguousarray(rows[first:end].astype(dtype, copy=False)), None, missing)
                    missing = 0 if is_there else missing + end - first
            if missing:
                yield FileBlock(np.empty((0, len(places)), dtype), None, missing)

        name = self._path.rpartition("/")[2]
        name = name if len(places) == header.n_sig else f"{name}/{float(header.fs * per_frame):g}Hz"
        return FileStream(name, channels, dtype, rate, utc_ns(self._start), None, read)

    def _is_partial(self, places: Sequence[int]) -> bool:
        return any((absent.any(axis=1) & ~absent.all(axis=1)).any() for _, absent in self._blocks(places, False))

    def _blocks(self, places: Sequence[int], as_values: bool) -> Iterator[tuple[Array, npt.NDArray[np.bool_]]]:
        """Reads rows, and which of their elements are missing."""
        step = max(1, BLOCK_BYTES // (8 * sum(self.header.samps_per_frame)))
        for first in range(0, self._frames, step):
            end = min(first + step, self._frames)
            record = self._wfdb.rdrecord(
                self._path, sampfrom=first, sampto=end, physical=as_values, smooth_frames=False
            )
            signals = record.e_p_signal if as_values else record.e_d_signal
            rows = np.stack([signals[place] for place in places], axis=1)
            if as_values:
                yield rows, np.isnan(rows)
            else:
                absent = [self._absent(rows[:, column], place) for column, place in enumerate(places)]
                yield rows, np.stack(absent, axis=1)

    def _absent(self, digits: Array, place: int) -> npt.NDArray[np.bool_]:
        bits = BITS.get(str(self.header.fmt[place]))
        absent: npt.NDArray[np.bool_] = np.zeros(len(digits), dtype=bool) if bits is None else digits == -(2 ** (bits - 1))
        return absent
