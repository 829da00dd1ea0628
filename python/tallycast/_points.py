"""Thinned ranges: as many columns as a plot has pixels, each with the least and the greatest value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tallycast import _core
from tallycast._convert import convert
from tallycast._errors import ArchiveError, NotStored, of_arguments
from tallycast._gap_map import GapMap, holes_of
from tallycast._plot import plot_points

if TYPE_CHECKING:
    import pandas as pd

    from tallycast._recording import Recording


class Points:
    """A thinned range: column k covers `times[k]` up to `times[k] + column_ns`; a peak of a single sample is kept."""

    def __init__(
        self,
        stream: str,
        channels: list[str],
        units: list[str],
        from_ns: int,
        column_ns: int,
        lo: npt.NDArray[np.float64],
        hi: npt.NDArray[np.float64],
        samples: npt.NDArray[np.uint64],
        gaps: GapMap,
    ) -> None:
        #: The stream's name.
        self.stream = stream
        #: Labels of the second axis: channels by name, an element of an array as `image[3]`.
        self.channels = channels
        #: Their units.
        self.units = units
        #: Width of a column. Units: nanoseconds.
        self.column_ns = column_ns
        #: The least values in their units, `[points, channels]`; NaN where there is no sample. Complex ones by magnitude.
        self.lo = lo
        #: The greatest values.
        self.hi = hi
        #: Number of samples in each column.
        self.samples = samples
        #: The holes in the range.
        self.gaps = gaps
        self._from_ns = from_ns

    @property
    def times(self) -> npt.NDArray[np.int64]:
        """Start of each column. Units: nanoseconds since 1970 UTC."""
        return self._from_ns + np.arange(len(self.lo), dtype=np.int64) * self.column_ns

    @property
    def datetimes(self) -> npt.NDArray[np.datetime64]:
        """Start of each column as `datetime64[ns]`."""
        return self.times.view("datetime64[ns]")

    def __len__(self) -> int:
        return len(self.lo)

    def __getitem__(self, channel: str) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Returns the least and greatest values of a channel, `[points]` each."""
        if channel not in self.channels:
            raise NotStored(f"no points of {channel}\navailable are: {', '.join(self.channels)}")
        place = self.channels.index(channel)
        return self.lo[:, place], self.hi[:, place]

    @of_arguments()
    def plot(self, *channels: str, ax: Any = None) -> list[Any]:
        """Draws the range of each column of channels, as `Excerpt.plot` draws samples; nothing where there is no sample."""
        return plot_points(self, channels, ax)

    def pandas(self) -> pd.DataFrame:
        """Returns a frame: index `time` (where columns begin), for each channel `lo`, `hi`, `samples`; `attrs` has `gaps`."""
        frame: pd.DataFrame = convert("to_pandas.points_frame", self)
        return frame

    def __repr__(self) -> str:
        return f"<Points of {self.stream}: {len(self)} columns of {', '.join(self.channels)}>"


def read_points(
    stream: str,
    recordings: Sequence[Recording],
    times: tuple[int, int],
    points: int,
    channel: str | None,
    element: int,
) -> Points:
    """Thins a range of a stream with the code of the command line and the monitor."""
    if any(not recordings[0].means_the_same_as(recording) for recording in recordings[1:]):
        raise ArchiveError(f"the epochs of {stream} have different schemas\ndownsample one: stream.epoch(…).between(…, points=…)")
    chosen = _chosen(stream, recordings[0], channel, element)
    cores = [recording._core for recording in recordings]
    thinned = _core.thin(cores, times, points, [(number, position) for number, position, _, _ in chosen])
    from_ns, column_ns = thinned[0][:2]

    def table(place: int) -> Any:
        return np.stack([found[place] for found in thinned], axis=1)

    # The holes are the same for each; without samples in between, their epoch is the one they belong to.
    holes = holes_of(thinned[0][5], recordings[0].epoch if len(recordings) == 1 else "")
    recordings[0].refuse_damage(holes)
    gaps = GapMap(holes)
    names, units = [name for _, _, name, _ in chosen], [unit for _, _, _, unit in chosen]
    return Points(stream, names, units, from_ns, column_ns, table(2), table(3), table(4), gaps)


def _chosen(
    stream: str, recording: Recording, channel: str | None, element: int
) -> list[tuple[int, int, str, str]]:
    """Returns number, element, name and unit of the channel to be downsampled."""
    channels = list(recording.schema.channels)
    names = ", ".join(it.name for it in channels)
    if channel is None:
        if any(it.shape for it in channels):
            raise ArchiveError(
                f"a sample of {stream} has arrays\nchoose the element to downsample with channel= and element=; its channels are: {names}"
            )
        return [(number, 0, it.name, it.unit) for number, it in enumerate(channels)]
    for number, it in enumerate(channels):
        if it.name == channel:
            count = it.elements
            if not 0 <= element < count:
                raise ArchiveError(f"{channel} of {stream} has no element {element}\nchoose one from 0 to {count - 1}")
            return [(number, element, f"{channel}[{element}]" if it.shape else channel, it.unit)]
    raise NotStored(f"{stream} has no channel {channel}\nits channels are: {names}")
