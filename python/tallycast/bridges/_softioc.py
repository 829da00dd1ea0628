"""A soft IOC that serves values from standard input; a separate process, because an IOC starts only once per process.

The first line is a JSON list of records, ``{"pv", "type", "length", "unit"}``; it answers ``ready``. Every further line is an
update, ``{"pv", "value", "t_ns", "severity", "unit"}``, where ``value`` and ``unit`` may be null: as before. It ends with its
input. Standard output belongs to the protocol; what the IOC itself prints goes to standard error.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any

#: Types of records that can be served.
TYPES = ("double", "float", "long", "int64", "short", "char")

#: UDF and COMM, of EPICS' alarm conditions: no value yet, and a value with a hole before it.
NO_ALARM, COMM_ALARM, UDF_ALARM = 0, 9, 17


def record_of(builder: Any, spec: dict[str, Any]) -> Any:
    """Returns a record for an entry to be served."""
    fields = {"EGU": spec.get("unit") or "", "SCAN": "Passive", "PINI": "NO", "TSE": -2}
    numpy_types = {"double": "f8", "float": "f4", "long": "i4", "int64": "i8", "short": "i2", "char": "u1"}
    if spec.get("length"):
        return builder.WaveformIn(spec["pv"], length=spec["length"], datatype=numpy_types[spec["type"]], **fields)
    if spec["type"] in {"double", "float"}:
        return builder.aIn(spec["pv"], PREC=6, **fields)
    if spec["type"] == "int64":
        return builder.int64In(spec["pv"], **fields)
    return builder.longIn(spec["pv"], **fields)


def main() -> int:
    """Serves until the end of input."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    asyncio_dispatcher, builder, softioc = (
        importlib.import_module(f"softioc.{it}") for it in ("asyncio_dispatcher", "builder", "softioc")
    )

    dispatcher = asyncio_dispatcher.AsyncioDispatcher()
    records = {spec["pv"]: record_of(builder, spec) for spec in json.loads(sys.stdin.readline())}
    builder.LoadDatabase()
    softioc.iocInit(dispatcher)
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        update = json.loads(line)
        record = records[update["pv"]]
        severity = update["severity"]
        condition = (NO_ALARM, COMM_ALARM, COMM_ALARM, UDF_ALARM)[severity]
        t = update["t_ns"] / 1e9
        if update["value"] is None:
            record.set_alarm(severity, condition, timestamp=t)
        else:
            record.set(update["value"], severity, condition, t)
        # A passive record takes what was set when it is processed, and writing a field processes it: so every update is one.
        if update.get("unit") is not None:
            record.set_field("EGU", update["unit"])
        else:
            record.set_field("PROC", 1)
    # The remaining threads of the IOC are not needed.
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
