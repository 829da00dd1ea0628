#!/usr/bin/env python3
"""Turns recordings that lie in Python and Debian packages into NPY arrays with a TOML description each.

    extract.py --shipped data                       the signals in this folder (needs scipy<1.12, soundfile)
    extract.py --external data/external             the others (needs obspy, soundfile)
               --sounds FOLDER                      an unpacked sound-theme-freedesktop package, for the sounds

What a recording holds is kept: integers stay integers, a scale to physical units goes into the description.
`cargo xtask data` calls this for the others; README.md beside it says where everything comes from.
"""

import argparse
import hashlib
import sys
from pathlib import Path

import numpy

OBSPY = "PyPI obspy 1.4.2 (test data of ObsPy)"
SOUNDS = "Debian sound-theme-freedesktop 0.8-2"


def quoted(value):
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'


def write(folder, name, array, rate, channels, title, origin, licence, start_ns=None, runs=None):
    """Writes `name`.npy and `name`.toml.

    channels: a list of (name, unit) or (name, unit, scale).
    runs: a list of (rows, start in ns since 1970) where the recording has holes between them.
    """
    array = numpy.ascontiguousarray(array)
    assert array.ndim in (1, 2) and len(channels) == (1 if array.ndim == 1 else array.shape[1])
    array = array.astype(array.dtype.newbyteorder("<"))
    path = folder / f"{name}.npy"
    numpy.save(path, array)
    lines = [
        f"title = {quoted(title)}",
        f"origin = {quoted(origin)}",
        f"licence = {quoted(licence)}",
        f"rate = {quoted(rate)}",
    ]
    if start_ns is not None:
        lines.append(f"start_ns = {start_ns}")
    for channel in channels:
        lines += ["", "[[channels]]", f"name = {quoted(channel[0])}", f"unit = {quoted(channel[1])}"]
        lines += [f"scale = {channel[2]!r}"] if len(channel) > 2 else []
    for rows, begin_ns in runs or []:
        lines += ["", "[[runs]]", f"rows = {rows}", f"start_ns = {begin_ns}"]
    path.with_suffix(".toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{name}: {array.dtype.str} {array.shape}, {rate} samples/s, {path.stat().st_size} bytes")


def ecg(folder):
    import warnings

    import scipy.misc

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        millivolts = scipy.misc.electrocardiogram()
    # The recorder's converter had 200 steps to the millivolt; the float values are exact multiples of that.
    counts = numpy.rint(millivolts * 200).astype("<i2")
    assert numpy.array_equal(counts / 200, millivolts)
    write(
        folder, "ecg", counts, "360", [("MLII", "mV", 0.005)],
        "electrocardiogram, MIT-BIH Arrhythmia Database, record 208, lead MLII, 19:35 to 24:35",
        "PhysioNet mitdb 1.0.0 by way of PyPI scipy 1.11.4", "ODC-By-1.0",
    )  # fmt: skip


def sound(folder, name, file, title, licence, sounds):
    import soundfile

    samples, rate = soundfile.read(sounds / file, dtype="int16", always_2d=True)
    channels = [("left", "FS", 2.0**-15), ("right", "FS", 2.0**-15)]
    write(folder, name, samples, str(rate), channels, title, f"{SOUNDS}, stereo/{file}", licence)


def seismograms(folder):
    import obspy

    tests = Path(obspy.__file__).parent
    stream = obspy.read()
    array = numpy.stack([trace.data for trace in stream], axis=1)
    channels = [(trace.stats.channel, "counts") for trace in stream]
    start = stream[0].stats.starttime.ns
    write(folder, "seismo", array, "100", channels, "earthquake at station BW.RJOB, filtered",
          f"{OBSPY}, obspy.read()", "LGPL-3.0", start_ns=start)  # fmt: skip

    stream = obspy.read(tests / "io/mseed/tests/data/gaps.mseed")
    array = numpy.concatenate([trace.data for trace in stream])
    runs = [(trace.stats.npts, trace.stats.starttime.ns) for trace in stream]
    write(folder, "seismo-gaps", array, "200", [("EHE", "counts")], "seismogram with gaps, station BW.BGLD",
          f"{OBSPY}, gaps.mseed", "LGPL-3.0", runs=runs)  # fmt: skip

    trace = obspy.read(tests / "signal/tests/data/CRLZ.HHZ.10.NZ.SAC")[0]
    write(folder, "seismo-long", trace.data, "100", [("HHZ", "counts")], "seismogram, station NZ.CRLZ",
          f"{OBSPY}, CRLZ.HHZ.10.NZ.SAC", "LGPL-3.0", start_ns=trace.stats.starttime.ns)  # fmt: skip

    trace = obspy.read(tests / "signal/tests/data/IM.I59H1..BDF_2020_10_31.mseed")[0]
    write(folder, "infrasound", trace.data, "20", [("BDF", "counts")], "infrasound, station IM.I59H1",
          f"{OBSPY}, IM.I59H1..BDF_2020_10_31.mseed", "LGPL-3.0", start_ns=trace.stats.starttime.ns)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shipped", type=Path)
    parser.add_argument("--external", type=Path)
    parser.add_argument("--sounds", type=Path)
    options = parser.parse_args()
    sounds = options.sounds and options.sounds / "usr/share/sounds/freedesktop/stereo"
    if options.shipped:
        if not sounds:
            parser.error("--shipped needs --sounds")
        ecg(options.shipped)
        sound(options.shipped, "chime", "complete.oga", "a chime", "CC-BY-3.0", sounds)
        names = ("ecg.npy", "chime.npy")
        sums = [f"{hashlib.sha256((options.shipped / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
        (options.shipped / "SHA256SUMS").write_text("".join(sums))
    if options.external:
        options.external.mkdir(parents=True, exist_ok=True)
        seismograms(options.external)
        if sounds:
            sound(options.external, "sound", "alarm-clock-elapsed.oga", "an alarm clock", "CC-BY-SA-3.0", sounds)
        else:
            print("sound: left out, because --sounds names no unpacked package", file=sys.stderr)


if __name__ == "__main__":
    main()
