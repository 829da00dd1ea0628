"""Publish and subscribe to streams of measurement data, with an account of every sample.

Three lines to publish:

    import tallycast as tc
    with tc.Publisher("lab/probe", {"current": "A", "voltage": "V"}, dtype="f4", rate=100_000) as pub:
        pub.send(block)  # [samples, channels]

three to read:

    with tc.Subscriber("lab/*") as sub:
        for block in sub:
            print(block.array.mean(axis=0), block.gaps)

and the account of every sample: ``sub.accounts()``.
"""

from tallycast._account import Account, Gap
from tallycast._app import App, AppReport, Cycle, Input, Output, Received, app
from tallycast._chunks import Chunk
from tallycast._core import VERSION as __version__
from tallycast._core import Block, bus_of, now_ns
from tallycast._errors import (
    ArchiveError,
    ArgumentError,
    BridgeError,
    Closed,
    CommandError,
    ConfigError,
    DamagedArchive,
    DoctorError,
    Error,
    FileError,
    ForkError,
    Full,
    MissingPackage,
    MomentError,
    NoSample,
    NotApplied,
    NotStored,
    PublishError,
    SteeringDenied,
    SteeringError,
    SteeringExpired,
    SteeringFailed,
    SteeringRefused,
    SteeringSuperseded,
    SteeringUncertain,
    UnknownChannel,
    UnknownParameter,
    UnknownPort,
)
from tallycast._operator import operator
from tallycast._parameters import Change, Parameter, Parameters
from tallycast._publisher import Publisher
from tallycast._recorder import Monitor, Recorder, monitor, record
from tallycast._remote import Applied, Lease, News, Remote, RemoteParameter, steer
from tallycast._run import MarkedRun, StoredRun, run
from tallycast._schema import Channel, Schema
from tallycast._steering import Steering, steering
from tallycast._streams import StreamInfo, account, streams
from tallycast._subscriber import Listener, Subscriber
from tallycast.archive import open_archive
from tallycast.readers import FileStream, FileStreams, read_file

__all__ = [
    "Account",
    "App",
    "AppReport",
    "Applied",
    "ArchiveError",
    "ArgumentError",
    "Block",
    "BridgeError",
    "Change",
    "Channel",
    "Chunk",
    "Closed",
    "CommandError",
    "ConfigError",
    "Cycle",
    "DamagedArchive",
    "DoctorError",
    "Error",
    "FileError",
    "FileStream",
    "FileStreams",
    "ForkError",
    "Full",
    "Gap",
    "Input",
    "Lease",
    "Listener",
    "MarkedRun",
    "MissingPackage",
    "MomentError",
    "Monitor",
    "News",
    "NoSample",
    "NotApplied",
    "NotStored",
    "Output",
    "Parameter",
    "Parameters",
    "PublishError",
    "Publisher",
    "Received",
    "Recorder",
    "Remote",
    "RemoteParameter",
    "Schema",
    "Steering",
    "SteeringDenied",
    "SteeringError",
    "SteeringExpired",
    "SteeringFailed",
    "SteeringRefused",
    "SteeringSuperseded",
    "SteeringUncertain",
    "StoredRun",
    "StreamInfo",
    "Subscriber",
    "UnknownChannel",
    "UnknownParameter",
    "UnknownPort",
    "__version__",
    "account",
    "app",
    "bus_of",
    "monitor",
    "now_ns",
    "open_archive",
    "operator",
    "read_file",
    "record",
    "run",
    "steer",
    "steering",
    "streams",
]

#: An alias of `Chunk`, kept for one version.
Piece = Chunk
