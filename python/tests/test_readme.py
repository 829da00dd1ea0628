"""The program on the first page, run as it is written there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np

import tallycast as tc
from environments import ROOT, examples
from places import WATCHDOG, Place


def test_the_program_of_the_readme_publishes_two_waves_until_ctrl_c(shm: Place, tmp_path: Path) -> None:
    (program,) = (block for block in examples(ROOT / "README.md") if block.language == "python")
    script = tmp_path / "readme.py"
    script.write_text(program.text)
    environment = os.environ | {"TALLYCAST_BUS": shm.publishers}
    with subprocess.Popen([sys.executable, str(script)], env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            with tc.Subscriber("lab/probe", timeout=WATCHDOG, until_end=True, bus=shm.readers) as reader:
                block = next(reader)
                process.send_signal(signal.SIGINT)
                for _ in reader:
                    pass
                (account,) = reader.accounts()
            assert process.wait(WATCHDOG) != 0 and "KeyboardInterrupt" in process.communicate()[1]
        finally:
            process.kill()
    times = (block.first_index + np.arange(len(block))) / 10_000
    waves = np.stack([np.sin(30 * times), np.cos(30 * times)], axis=1)
    assert np.array_equal(block.array, waves.astype("f4"))
    assert [(it.name, it.unit) for it in block.schema.channels] == [("current", "A"), ("voltage", "V")]
    assert account.closed and account.balanced and account.delivered >= 2 * len(block)
