"""Runs of the experiment from Python: said on a bus, recorded, and selected in an archive."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tallycast as tc
from places import Place, command, until

#: Longer than any wait for a reader that is there.
PATIENCE = "60s"


@pytest.fixture(autouse=True)
def the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TALLYCAST_BIN", str(Path(command()).resolve()))


def test_a_run_marks_what_was_measured_in_it(shm: Place, tmp_path: Path) -> None:
    with tc.record("lab/*", path=tmp_path, run="r", bus=shm.readers) as recorder:
        with shm.publisher("lab/probe", rate=1_000) as publisher:
            with tc.run("shot-17", labels={"program": "ohmic"}, wait=PATIENCE, bus=shm.readers) as run:
                publisher.send(np.arange(1_000.0))
            assert run.readers > 0 and run.end_ns is not None and run.stop().end_ns == run.end_ns
        until(lambda: any(it.id == "shot-17" and it.state == "stopped" for it in recorder.archive.experiment_runs))
        until(lambda: "lab/probe" in recorder.archive and recorder.archive["lab/probe"].recordings[0].state == "closed")
        archive = recorder.archive
    shot = archive.during("shot-17")
    assert (shot.range_ns, shot.labels) == ((run.start_ns, run.end_ns), {"program": "ohmic"})
    stream = archive["lab/probe"]
    excerpt, times = stream.between(*shot.range_ns), stream.between().times
    inside = (times >= run.start_ns) & (times < run.end_ns)
    assert excerpt.times.tolist() == times[inside].tolist()


def test_a_run_that_is_not_known_is_told(tmp_path: Path, shm: Place) -> None:
    with tc.record("lab/*", path=tmp_path, run="r", bus=shm.readers) as recorder, shm.publisher("lab/probe", rate=1_000) as publisher:
        publisher.send(np.arange(10.0))
        until(lambda: "lab/probe" in recorder.archive)
        archive = recorder.archive
    assert archive.experiment_runs == []
    with pytest.raises(tc.NotStored, match="no run shot-17"):
        archive.during("shot-17")


@pytest.mark.parametrize(("run", "labels", "text"), [("shot 17", {}, "invalid id"), ("a", {"b c": "d"}, "invalid key")])
def test_bad_ids_and_labels_are_told_in_the_words_of_the_command(shm: Place, run: str, labels: dict[str, str], text: str) -> None:
    with pytest.raises(tc.Error, match=text):
        tc.run(run, labels=labels, bus=shm.readers)
