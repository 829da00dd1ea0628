"""The contents of a stored stream in a range of time or of indices: arrays, times, and the gaps between them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tallycast import _html
from tallycast._convert import convert
from tallycast._errors import ArchiveError, NotStored, UnknownChannel, of_arguments
from tallycast._gap_map import GapMap, Hole, holes_of
from tallycast._moments import text_of
from tallycast._plot import plot_rows
from tallycast._scaling import Array, scaled

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import xarray as xr

    from tallycast import _core
    from tallycast._schema import Channel, Schema
    from tallycast._recording import Recording


class Rows:
    """Stored samples, one row each, and their conversions: the base of stretches and excerpts.

    Rows are contiguous also where samples are missing between them: `index` and `times` have the positions, `gaps` the causes.
    """

    @property
    def stretches(self) -> list[Stretch]:
        """Parts of the rows, one per epoch."""
        raise NotImplementedError

    @property
    def stream(self) -> str:
        """The stream's name."""
        return self._recording.stream

    @property
    def run(self) -> str:
        """The run."""
        return self._recording.run

    @property
    def schema(self) -> Schema:
        """The schema of the samples."""
        return self._recording.schema

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's dtype of the elements."""
        return self._recording.dtype

    @cached_property
    def array(self) -> Array:
        """The elements as they were recorded, in memory of the array's own.

        Shape: `[rows, channels]`, or `[rows, *shape]` of an only channel that has one; of channels of several shapes
        `[rows, elements per sample]`. An element that never arrived reads as 0: see `missing`.
        """
        return self._load_array()

    @cached_property
    def index(self) -> npt.NDArray[np.uint64]:
        """The index of each row's sample since its epoch began."""
        return self._load_index()

    @cached_property
    def times(self) -> npt.NDArray[np.int64]:
        """Time of each row's sample. Units: nanoseconds since 1970 UTC.

        Computed from the published time of the run of samples and the rate; accurate to the nanosecond of rounding.
        """
        return self._load_times()

    @cached_property
    def missing(self) -> npt.NDArray[np.bool_] | None:
        """Mask of the elements that never arrived, in the shape of `array`; `None` if all did."""
        return self._load_missing()

    @cached_property
    def gaps(self) -> GapMap:
        """Missing samples between the rows, before the first and behind the last. Holes that extend beyond are whole."""
        return self._load_gaps()

    @property
    def datetimes(self) -> npt.NDArray[np.datetime64]:
        """`times` as `datetime64[ns]`: the same memory."""
        return self.times.view("datetime64[ns]")

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, channel: str) -> Array:
        """Returns the elements of a channel as they were recorded, `[rows, *shape]`: a view of `array` where that can be."""
        place, described = self._channel(channel)
        return self._part(self.array, place, described)

    def missing_of(self, channel: str) -> npt.NDArray[np.bool_] | None:
        """Returns which elements of a channel never arrived, `[rows, *shape]`; `None` if all did."""
        if self.missing is None:
            return None
        part = self._part(self.missing, *self._channel(channel))
        return part if part.any() else None

    def values(self, channel: str | None = None) -> Array:
        """Returns the elements in their channels' units: element × scale + offset, NaN where one never arrived.

        `float64`, or `complex128` of complex elements; of one channel `[rows, *shape]`, of all as `array`.
        """
        channels = self.schema.channels
        if channel is not None:
            _, described = self._channel(channel)
            return scaled(self[channel], self.missing_of(channel), described)
        if len(channels) == 1:
            return self.values(channels[0].name).reshape(self.array.shape)
        parts = [self.values(it.name).reshape(len(self), it.elements) for it in channels]
        return np.concatenate(parts, axis=1)

    @of_arguments()
    def line(self, channel: str, element: int = 0) -> tuple[npt.NDArray[np.datetime64], Array]:
        """Returns times and values of one element for a plot: NaN marks the start of a hole, so that no line is drawn across it.

        `plt.plot(*excerpt.line("current"))`
        """
        elements = self._channel(channel)[1].elements
        if not 0 <= element < elements:
            raise NotStored(f"{channel} of {self.stream} has no element {element}\nchoose one from 0 to {elements - 1}")
        values = self.values(channel).reshape(len(self), elements)[:, element]
        times = self.times
        behind = self._behind_holes()
        period = int(10**9 / self._recording.rate)
        values = np.insert(values, behind, np.nan)
        times = np.insert(times, behind, times[behind - 1] + period)
        return times.view("datetime64[ns]"), values

    @of_arguments()
    def plot(self, *channels: str, element: int = 0, ax: Any = None) -> list[Any]:
        """Draws channels over their times, in their units; the line breaks where samples are missing, and the hole is grey.

        Returns matplotlib's axes: one for each unit, or `ax` alone, in which everything is drawn. Without names all channels are drawn;
        of one with a shape `element` is, of complex numbers the size. Needs matplotlib. For more than some 100,000 rows
        `between(…, points=2_000).plot()` shows the same, peaks included.
        """
        for name in channels:
            self._channel(name)
        return plot_rows(self, channels, element, ax)

    def _repr_html_(self) -> str:
        # The gap map and counts come without the samples, which may be many.
        head = ("from", "to", "samples", "holes", "missing samples", "epoch")
        shown = _html.table(head, [stretch._summary() for stretch in self.stretches], f"{self.stream}, run {self.run}")
        return shown + _html.channels(self.stretches[-1].schema.channels if self.stretches else ())

    def numpy(self) -> npt.NDArray[np.void]:
        """Returns a structured array: fields `index`, `time_ns`, and one for each channel, as they were recorded."""
        structured: npt.NDArray[np.void] = convert("to_numpy.structured", self)
        return structured

    def pandas(self, *, scaled: bool = True) -> pd.DataFrame:
        """Returns a frame: index `time` (UTC, to the nanosecond), column `index`, and a column for each element of a sample.

        Values in their channels' units, or with `scaled=False` elements as recorded. What never arrived is NaN, or NA in a
        nullable column of integers. `frame.attrs` has `gaps`, `units` and what else is known. Needs pandas.
        """
        frame: pd.DataFrame = convert("to_pandas.frame", self, scaled)
        return frame

    def polars(self, *, scaled: bool = True) -> pl.DataFrame:
        """Returns a frame: `time`, `index`, `missing_before` (samples missing directly before the row), and a column a channel.

        A channel with a shape is an `Array`, a complex number an `Array` of two. What never arrived is null. Needs polars.
        """
        frame: pl.DataFrame = convert("to_polars.frame", self, scaled)
        return frame

    def xarray(self, *, scaled: bool = True) -> xr.Dataset:
        """Returns a data set: dimension `time`, coordinates `time` (UTC) and `index`, a variable for each channel.

        Missing elements are NaN in floats; for all dtypes a variable `CHANNEL_missing` marks them if there are any.
        The attribute `gaps` has the gap map as JSON. Needs xarray.
        """
        dataset: xr.Dataset = convert("to_xarray.dataset", self, scaled)
        return dataset

    def arrow(self) -> Any:
        """Returns a `pyarrow.Table` with the columns and metadata of a segment of the archive, not scaled.

        Missing elements are null. The schema's metadata have the gap map as `tallycast.gaps` (JSON). Needs pyarrow.
        """
        return convert("to_arrow.table", self)

    def dask(self, channel: str | None = None, *, scaled: bool = False) -> Any:
        """Returns a `dask.array` of a chunk for each segment, read when it is computed: for more than fits into memory.

        Shapes as `array`, or as the channel's. Elements as recorded, where one that never arrived reads as 0; with
        `scaled=True` as `values`, NaN there. Needs Dask.
        """
        return convert("to_dask.array", self, channel, scaled)

    def delayed(self) -> list[Any]:
        """Returns a `dask.delayed` `Stretch` for each segment: its rows with times and gaps. Needs Dask."""
        stretches: list[Any] = convert("to_dask.delayed_stretches", self)
        return stretches

    @of_arguments()
    def to_hdf5(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Writes a NeXus file: an `NXentry` for each stretch, an `NXdata` for each channel, the gap map as a table. Needs h5py."""
        return _whole_file(Path(path), overwrite, lambda draft: convert("to_hdf5.write", self, draft))

    @of_arguments()
    def to_mcap(self, path: str | os.PathLike[str], *, scaled: bool = True, overwrite: bool = False) -> Path:
        """Writes an MCAP file: a Protobuf message for each sample, a JSON message for each hole. Needs mcap."""
        return _whole_file(Path(path), overwrite, lambda draft: convert("to_mcap.write", self, draft, scaled))

    @of_arguments()
    def to_netcdf(self, path: str | os.PathLike[str], *, scaled: bool = True, overwrite: bool = False) -> Path:
        """Writes a NetCDF 4 file: what `xarray` returns, complex numbers as two variables. Needs xarray and h5netcdf."""
        return _whole_file(Path(path), overwrite, lambda draft: convert("to_netcdf.write", self, draft, scaled))

    @of_arguments()
    def to_mat(self, path: str | os.PathLike[str], *, scaled: bool = True, overwrite: bool = False) -> Path:
        """Writes one epoch for MATLAB: a variable for each channel, with `time_ns`, `index`, `gaps`.

        Version 5 of MAT files, which needs SciPy; from 2 GiB on version 7.3, which needs h5py.
        """
        return _whole_file(Path(path), overwrite, lambda draft: convert("to_mat.write", self, draft, scaled))

    @of_arguments()
    def to_parquet(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Writes one epoch as Parquet, as `tallycast query --export parquet` does: columns and metadata of a segment."""
        return self._export("parquet", Path(path), overwrite)

    @of_arguments()
    def to_csv(self, path: str | os.PathLike[str], *, iso_times: bool = False, overwrite: bool = False) -> Path:
        """Writes one epoch as CSV, as `tallycast query --export csv` does: values in their units, holes as comments.

        Times are nanoseconds since 1970 in `time_ns`, or with `iso_times` ISO 8601 in `time`.
        """
        return self._export("csv-iso" if iso_times else "csv", Path(path), overwrite)

    def _load_array(self) -> Array:
        raise NotImplementedError

    def _load_index(self) -> npt.NDArray[np.uint64]:
        raise NotImplementedError

    def _load_times(self) -> npt.NDArray[np.int64]:
        raise NotImplementedError

    def _load_missing(self) -> npt.NDArray[np.bool_] | None:
        raise NotImplementedError

    def _load_gaps(self) -> GapMap:
        raise NotImplementedError

    @property
    def _recording(self) -> Recording:
        raise NotImplementedError

    def _channel(self, name: str) -> tuple[slice, Channel]:
        """Returns the range of a channel's elements in a sample, and the channel."""
        try:
            return self.schema.place(name), self.schema.channel(name)
        except UnknownChannel:
            names = ", ".join(channel.name for channel in self.schema.channels)
            raise NotStored(f"{self.stream} has no channel {name}\nits channels are: {names}") from None

    def _part(self, array: Array, place: slice, channel: Channel) -> Array:
        return array.reshape(len(array), self.schema.elements_per_sample)[:, place].reshape(len(array), *channel.shape)

    def _behind_holes(self) -> npt.NDArray[np.intp]:
        """Returns the rows that do not follow the row before them."""
        jumps = self.index[1:] != self.index[:-1] + np.uint64(1)
        starts = np.cumsum([len(stretch) for stretch in self.stretches])[:-1]
        starts = starts[(starts > 0) & (starts < len(self))]
        jumps[starts - 1] = True
        return np.flatnonzero(jumps) + 1

    def _export(self, form: str, path: Path, overwrite: bool) -> Path:
        if len(self.stretches) != 1:
            raise ArchiveError(
                f"{form} takes one epoch, and the range contains {len(self.stretches)}\n"
                f"export them one by one: for stretch in excerpt.stretches: stretch.to_{form.partition('-')[0]}(…)"
            )
        (stretch,) = self.stretches

        def write(draft: Path) -> None:
            samples, holes = stretch._core.export(form, draft, stretch._times, stretch._indices)
            stretch.recording.refuse_damage(holes_of(holes, stretch.epoch))
            if samples == 0:
                missing = sum(hole.samples for hole in holes_of(holes, stretch.epoch))
                raise ArchiveError(
                    f"nothing is stored in this range; {missing} samples are missing\nsee excerpt.gaps, or widen the range"
                )

        return _whole_file(path, overwrite, write)


class Stretch(Rows):
    """Rows of one epoch. Read on first access, and kept."""

    def __init__(self, recording: Recording, times: tuple[int, int], indices: tuple[int, int]) -> None:
        #: The recording it is of.
        self.recording = recording
        self._times = times
        self._indices = indices

    @property
    def stretches(self) -> list[Stretch]:
        # Made anew: a list that is kept would keep the rows in memory, in a circle, until Python looks for such.
        return [self]

    def _within(self, first: int, end: int) -> Stretch:
        """Returns the rows from index `first` up to `end`, which is not included: read anew, and no others."""
        return Stretch(self.recording, self._times, (max(first, self._indices[0]), min(end, self._indices[1])))

    @property
    def epoch(self) -> str:
        """The publisher's epoch."""
        return self.recording.epoch

    @property
    def account(self) -> dict[str, Any]:
        """The account of the recording: of all of it, not of this range."""
        return self.recording.account

    def _load_array(self) -> Array:
        return self._read[0]

    def _load_index(self) -> npt.NDArray[np.uint64]:
        return self._read[1].indices()

    def _load_times(self) -> npt.NDArray[np.int64]:
        return self._read[1].times_ns()

    def _load_missing(self) -> npt.NDArray[np.bool_] | None:
        missing = self._read[1].missing()
        return None if missing is None else missing.reshape(self.array.shape)

    def _load_gaps(self) -> GapMap:
        return GapMap(self._holes + self._untold)

    @cached_property
    def _read(self) -> tuple[Array, _core.StoredRows]:
        array, rows = self._core.read(self._times, self._indices)
        self.recording.refuse_damage(holes_of(rows.holes(), self.epoch))
        return array, rows

    @cached_property
    def _holes(self) -> list[Hole]:
        # Without the samples: a recording may be larger than memory, its gap map is not.
        return holes_of(self._read[1].holes(), self.epoch) if "_read" in self.__dict__ else self._looked[1]

    @cached_property
    def _looked(self) -> tuple[int, list[Hole], list[int]]:
        """Number of rows, the holes, and the elements of a sample that never arrived in some: read without keeping a sample."""
        samples, holes, partial = self._core.look(self._times, self._indices)
        return samples, holes_of(holes, self.epoch), partial

    @cached_property
    def _untold(self) -> list[Hole]:
        untold = holes_of(self._core.untold_absences(self._times), self.epoch)
        return [hole for hole in untold if self._indices[0] <= hole.first_index < self._indices[1]]

    @property
    def _core(self) -> _core.StoredRecording:
        return self.recording._core

    @property
    def _recording(self) -> Recording:
        return self.recording

    def _summary(self) -> tuple[object, ...]:
        """Returns a row about it for a table: times, samples, holes, missing samples, epoch."""
        first, end = (min(max(time, self._times[0]), self._times[1]) for time in self.recording.known_ns)
        holes = self.gaps
        return text_of(first), text_of(end), self._looked[0], len(holes), holes.samples, self.epoch

    def __reduce__(self) -> tuple[Any, ...]:
        return Stretch, (self.recording, self._times, self._indices)

    def __repr__(self) -> str:
        return f"<Stretch of {self.stream} epoch {self.epoch}: {len(self)} rows, {len(self.gaps)} holes>"


class Excerpt(Rows):
    """The contents of a stored stream in a range: of one epoch, or of several in sequence.

    Arrays and what is made of them span all epochs if their schemas are the same; otherwise go through `stretches`.
    """

    def __init__(self, recordings: Sequence[Recording], times: tuple[int, int], indices: tuple[int, int]) -> None:
        def reaches_in(recording: Recording) -> bool:
            first, end = recording.known_ns
            return first < times[1] and (end > times[0] or first >= times[0])

        self._newest = recordings[-1]
        self._stretches = [Stretch(recording, times, indices) for recording in recordings if reaches_in(recording)]

    @property
    def stretches(self) -> list[Stretch]:
        return self._stretches

    @property
    def stream(self) -> str:
        return self._newest.stream

    @property
    def run(self) -> str:
        return self._newest.run

    @property
    def epochs(self) -> list[str]:
        """Epochs of the publisher within the range."""
        return [stretch.epoch for stretch in self.stretches]

    @property
    def accounts(self) -> list[dict[str, Any]]:
        """The accounts of their recordings: of all of each, not of this range."""
        return [stretch.account for stretch in self.stretches]

    @property
    def account(self) -> dict[str, Any]:
        """The account of the only recording in the range."""
        if len(self.stretches) != 1:
            raise ArchiveError(f"{len(self.stretches)} recordings are in the range, each with an account\nsee excerpt.accounts")
        return self.stretches[0].account

    def _load_array(self) -> Array:
        return self._joined(lambda stretch: stretch.array, (self._newest.sample_shape, self._newest.dtype))

    def _load_index(self) -> npt.NDArray[np.uint64]:
        return self._joined(lambda stretch: stretch.index, ((), np.dtype(np.uint64)))

    def _load_times(self) -> npt.NDArray[np.int64]:
        return self._joined(lambda stretch: stretch.times, ((), np.dtype(np.int64)))

    def _load_missing(self) -> npt.NDArray[np.bool_] | None:
        if all(stretch.missing is None for stretch in self._alike()):
            return None

        def mask(stretch: Stretch) -> Array:
            return np.zeros(stretch.array.shape, dtype=np.bool_) if stretch.missing is None else stretch.missing

        return self._joined(mask, ((), np.dtype(np.bool_)))

    def _load_gaps(self) -> GapMap:
        holes = [hole for stretch in self.stretches for hole in stretch._holes]
        return GapMap(holes + [hole for stretch in self.stretches for hole in stretch._untold])

    @property
    def _recording(self) -> Recording:
        stretches = self._alike()
        return stretches[0].recording if stretches else self._newest

    def _alike(self) -> list[Stretch]:
        """Returns the stretches, if what they hold means the same."""
        for stretch in self.stretches[1:]:
            if not self.stretches[0].recording.means_the_same_as(stretch.recording):
                raise ArchiveError(
                    f"the range spans epochs of {self.stretches[0].stream} with different schemas\n"
                    "read them one by one: for stretch in excerpt.stretches"
                )
        return self.stretches

    def _joined(self, of: Callable[[Stretch], Array], empty: tuple[tuple[int, ...], np.dtype[Any]]) -> Array:
        stretches = self._alike()
        if not stretches:
            shape, dtype = empty
            return np.empty((0, *shape), dtype=dtype)
        return of(stretches[0]) if len(stretches) == 1 else np.concatenate([of(stretch) for stretch in stretches])

    def __repr__(self) -> str:
        epochs = "1 epoch" if len(self.stretches) == 1 else f"{len(self.stretches)} epochs"
        return f"<Excerpt of {self._newest.stream}, {epochs}>"


def _whole_file(path: Path, overwrite: bool, write: Callable[[Path], None]) -> Path:
    """Lets `write` make a file that has its name only once it is whole."""
    if path.exists() and not overwrite:
        raise ArchiveError(f"{path} already exists\nname another file, or replace it with overwrite=True")
    if not path.absolute().parent.is_dir():
        raise ArchiveError(f"cannot write {path}: there is no folder {path.parent}\ncreate it, or choose another place")
    draft = path.with_name(f"{path.name}.draft")
    try:
        write(draft)
        os.replace(draft, path)
    except OSError as refused:
        raise ArchiveError(f"cannot write {path}: {refused}\nchoose another place, or free some space") from refused
    finally:
        draft.unlink(missing_ok=True)
    return path
