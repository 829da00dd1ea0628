"""A soft IOC for tests: records by a JSON list in the first line, then one command a line; each is answered when it is done.

Records: ``{"pv", "kind", "unit", "value", "length"}``; commands: ``{"pv", "value", "t", "severity"}`` or ``{"pv", "unit"}``. An output has no times and
severities of a test's: it is as if another client had written to it.
"""

import json
import os
import sys

import numpy as np
from softioc import asyncio_dispatcher, builder, softioc

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
dispatcher = asyncio_dispatcher.AsyncioDispatcher()
records = {}
outputs = set()
for spec in json.loads(sys.stdin.readline()):
    # Passive records with their own times: processed only on a command.
    fields = {"SCAN": "Passive", "PINI": "NO", "TSE": -2, "EGU": spec.get("unit", "")}
    pv, kind = spec["pv"], spec["kind"]
    if kind == "double":
        records[pv] = builder.aIn(pv, **fields)
    elif kind == "long":
        records[pv] = builder.longIn(pv, **fields)
    elif kind == "int64":
        records[pv] = builder.int64In(pv, **fields)
    elif kind == "menu":
        del fields["EGU"]
        records[pv] = builder.mbbIn(pv, *spec["states"], **fields)
    elif kind == "string":
        del fields["EGU"]
        records[pv] = builder.stringIn(pv, **fields)
    elif kind == "out":
        outputs.add(pv)
        records[pv] = builder.aOut(pv, EGU=spec.get("unit", ""), always_update=True, initial_value=0.0)
    else:
        records[pv] = builder.WaveformIn(pv, length=spec["length"], datatype=kind, **fields)
builder.LoadDatabase()
softioc.iocInit(dispatcher)
print("ready", file=answers, flush=True)
for line in sys.stdin:
    command = json.loads(line)
    record = records[command["pv"]]
    if "unit" in command:
        record.set_field("EGU", command["unit"])
    elif command["pv"] in outputs:
        record.set(command["value"])
    else:
        value = command["value"]
        record.set(np.array(value) if isinstance(value, list) else value, command.get("severity", 0), 0, command["t"])
        record.set_field("PROC", 1)
    print("done", file=answers, flush=True)
os._exit(0)
