"""Names and times of a recording that are none in the form that is written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tallycast as tc
from archive_scene import bus_of_its_own, publish, recorder, signal_file
from places import WATCHDOG, wait_until_joined
from tallycast._convert.columns import FRAME_LEADING, column_name
from tallycast._names import free_name
from tallycast.archive import Archive

#: The longest name of MATLAB, and two that are equal up to there.
LONGEST, LONG, ALIKE = "m" * 63, "l" * 63 + "left", "l" * 63 + "right"
#: Names that are equal in JSON, hide an axis, or are no names of NetCDF or MATLAB.
NAMES = ("T_1", "T1", "t1", "time", "index", "missing_before", "a/b c", "2nd", "T_1_missing", LONGEST, LONG, ALIKE)


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Archive]:
    """A recording whose channels have such names."""
    folder, bus = tmp_path_factory.mktemp("odd"), bus_of_its_own()
    channels = "".join(f'[[channels]]\nname = "{name}"\nunit = "V"\n' for name in NAMES)
    rows = np.arange(5 * len(NAMES), dtype="f4").reshape(5, -1)
    with recorder(folder / "archive", "live", "odd/names", bus=bus):
        publish("odd/names", "--file", str(signal_file(folder, rows, "100", channels)), bus=bus)
    yield tc.open_archive(folder / "archive")


def rows_of(archive: Archive) -> Any:
    return archive["odd/names"].between()


def test_names_give_way_to_the_axes_of_a_frame() -> None:
    assert column_name("time") == "time" and column_name("time", FRAME_LEADING) == "channel:time"
    assert free_name("u", {"u", "u_2"}) == "u_3" and free_name("v", {"u"}) == "v"
    taken = {"l" * 63, *(f"{'l' * 61}_{number}" for number in range(2, 10))}
    assert free_name(ALIKE, taken, most=63) == f"{'l' * 60}_10" and free_name(LONG, (), "_missing", 63) == f"{'l' * 55}_missing"


def test_mcap_of_names_that_are_one_in_json_is_read_by_the_usual_decoder(odd: Archive, tmp_path: Path) -> None:
    readers: Any = pytest.importorskip("mcap.reader")
    protobuf: Any = pytest.importorskip("mcap_protobuf.decoder")
    path = rows_of(odd).to_mcap(tmp_path / "odd.mcap")
    with path.open("rb") as file:
        reader = readers.make_reader(file, decoder_factories=[protobuf.DecoderFactory()])
        first = next(reader.iter_decoded_messages(topics=["odd/names"])).decoded_message
    values = [value for field, value in first.ListFields() if field.name != "index"]
    assert [first.index, *values] == [0, *range(1, len(NAMES))], "a value of 0 is not written"


def test_frames_and_data_sets_have_every_channel(odd: Archive) -> None:
    pytest.importorskip("polars"), pytest.importorskip("xarray"), pytest.importorskip("pandas")
    rows = rows_of(odd)
    for place, name in enumerate(NAMES):
        column = column_name(name, FRAME_LEADING)
        wanted = [place + row * len(NAMES) for row in range(5)]
        assert rows.polars()[column].to_list() == rows.pandas()[column].tolist() == rows.xarray()[column].values.tolist() == wanted


def test_mcap_of_times_before_1970_is_refused_in_words(tmp_path: Path) -> None:
    pytest.importorskip("mcap")
    bus = bus_of_its_own()
    with recorder(tmp_path / "archive", "live", "odd/early", bus=bus), tc.Publisher("odd/early", {"u": "V"}, rate=100, bus=bus) as pub:
        with tc.Subscriber("odd/early", bus=bus, timeout=WATCHDOG) as sub:
            wait_until_joined(sub)
        pub.wait_for_readers(timeout=WATCHDOG)
        pub.send([[1.0], [2.0]], t0_ns=-250_000_000)
    early = tc.open_archive(tmp_path / "archive")["odd/early"].between()
    with pytest.raises(tc.ArchiveError, match="begins at 1969-12-31T23:59:59.750000000Z"):
        early.to_mcap(tmp_path / "early.mcap")
    assert not (tmp_path / "early.mcap").exists()


def test_netcdf_and_mat_of_odd_names_have_every_channel(odd: Archive, tmp_path: Path) -> None:
    xr: Any = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    scipy_io: Any = pytest.importorskip("scipy.io")
    rows = rows_of(odd)
    with xr.open_dataset(rows.to_netcdf(tmp_path / "odd.nc"), engine="h5netcdf") as data:
        assert sorted(int(data[name][1]) - len(NAMES) for name in data.data_vars) == list(range(len(NAMES)))
    found = scipy_io.loadmat(rows.to_mat(tmp_path / "odd.mat"), simplify_cells=True)
    names = found["about"]["names"]
    assert max(map(len, found)) == 63 and names[LONGEST] == LONGEST and names["l" * 63] == LONG and names[f"{'l' * 61}_2"] == ALIKE
    assert {names[name]: found[name].tolist() for name in names} == {
        name: [place + row * len(NAMES) for row in range(5)] for place, name in enumerate(NAMES)
    }
