"""EPICS process variables as streams, and streams as process variables: ``python -m tallycast.bridges.epics``.

Channel Access by aioca, PV Access by p4p. What updates mean is decided in `_epics_update` and `_feed`; here is the command.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Union

import tallycast as tc

from . import _run
from ._epics_ca import ChannelAccess, Event
from ._epics_pva import PvAccess
from ._epics_serve import IocProcess, P4pServer, PutSink, PvServer, Served, ServedSink
from ._epics_update import BAD_FROM, Meta, Pv, Reading
from ._feed import Feed
from ._outflow import Outflow, Route
from ._outlet import Declaration, Outlet
from ._softioc import TYPES
from ._thinner import METHODS, Thinner

IN_KEYS = frozenset(
    {"pv", "stream", "channel", "unit", "rate", "expect", "flatten", "stamp", "bad", "severity", "labels"}
)
OUT_KEYS = frozenset({"stream", "channel", "pv", "put", "rate", "thin", "type", "length", "unit"})

#: Nominal rate of streams whose updates come when they come: what is to be expected, for queues and budgets.
NOMINAL_RATE = "1k"

EXAMPLES = """\
examples:
  python -m tallycast.bridges.epics --pv SWMF:TEMP=lab/temp --pv pva://SWMF:WAVE=lab/wave
  python -m tallycast.bridges.epics --pv SCOPE:CH1=lab/scope --flatten 1M
  python -m tallycast.bridges.epics --serve lab/probe:current=LAB:CURRENT --out-rate 10
  python -m tallycast.bridges.epics --config epics.toml --json
"""


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Reads the command line."""
    parser = _run.arguments(
        "epics", "EPICS process variables in as streams, thinned streams out as process variables.", EXAMPLES
    )
    parser.add_argument(
        "--pv",
        action="append",
        default=[],
        type=_run.pair,
        metavar="PV=STREAM",
        help="follow a PV: NAME, ca://NAME or pva://NAME; may be given several times",
    )
    parser.add_argument(
        "--rate",
        type=_run.rate,
        metavar="RATE",
        help=f"nominal samples per second of the streams: the fastest that updates come [default: {NOMINAL_RATE}]",
    )
    parser.add_argument(
        "--expect",
        type=_run.rate,
        metavar="RATE",
        help="the PVs are updated regularly at this rate: what is missing is counted by the IOC's time stamps",
    )
    parser.add_argument(
        "--flatten",
        type=_run.rate,
        metavar="RATE",
        help="waveforms are runs of samples at this rate, not samples of many elements",
    )
    parser.add_argument(
        "--bad", choices=sorted(BAD_FROM), help="severity from which on a value is a hole [default: invalid]"
    )
    parser.add_argument("--severity", action="store_true", help="publish the severity as a second channel")
    parser.add_argument(
        "--serve",
        action="append",
        default=[],
        type=_run.pair,
        metavar="STREAM[:CHANNEL]=PV",
        help="serve a channel as a PV of ours",
    )
    parser.add_argument(
        "--put",
        action="append",
        default=[],
        type=_run.pair,
        metavar="STREAM[:CHANNEL]=PV",
        help="write a channel to a PV of others",
    )
    parser.add_argument(
        "--server",
        choices=("ioc", "pva"),
        default="ioc",
        help="what serves: a soft IOC (CA and PVA), or p4p (PVA) [default: ioc]",
    )
    parser.add_argument(
        "--out-rate",
        type=_run.rate,
        metavar="RATE",
        help="outputs per second of each PV; `all` samples in the file [default: 10]",
    )
    parser.add_argument("--thin", choices=sorted(METHODS), help="what an output tells of its samples [default: last]")
    return parser.parse_args(argv)


def entries(args: argparse.Namespace) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Returns what is to come in and to go out, from file and command line."""
    read = _run.settings(args.config, {"in": IN_KEYS, "out": OUT_KEYS})
    common = {
        "rate": args.rate,
        "expect": args.expect,
        "flatten": args.flatten,
        "bad": args.bad,
        "severity": args.severity or None,
    }
    incoming = [*read.get("in", [])]
    for pv, stream in args.pv:
        incoming.append(
            {"pv": pv, "stream": stream, **{key: value for key, value in common.items() if value is not None}}
        )
    outgoing = [*read.get("out", [])]
    out_common = {key: value for key, value in {"rate": args.out_rate, "thin": args.thin}.items() if value is not None}
    for name, kind in ((args.serve, "pv"), (args.put, "put")):
        for source, pv in name:
            stream, _, channel = source.partition(":")
            outgoing.append({"stream": stream, **({"channel": channel} if channel else {}), kind: pv, **out_common})
    if not incoming and not outgoing:
        raise tc.ConfigError(
            "nothing to do\nname PVs with --pv PV=STREAM, streams with --serve STREAM=PV, or a file with --config"
        )
    for entry in incoming:
        for key in ("pv", "stream"):
            if key not in entry:
                raise tc.ConfigError(f"an entry of [[in]] has no `{key}`: {entry}")
    for entry in outgoing:
        if "stream" not in entry or ("pv" in entry) == ("put" in entry):
            raise tc.ConfigError(
                f"an entry of [[out]] needs `stream`, and either `pv` (serve it) or `put` (write it): {entry}"
            )
    return incoming, outgoing


class Incoming:
    """All PVs that are followed."""

    def __init__(self, specs: Sequence[dict[str, Any]], args: argparse.Namespace, reporter: _run.Reporter) -> None:
        self.inbox: _run.Inbox[Event] = _run.Inbox()
        self._pvs: list[Pv] = []
        self._outlets: list[Outlet] = []
        self._clients: dict[str, Union[ChannelAccess, PvAccess]] = {}
        for spec in specs:
            self._pvs.append(_pv_of(spec))
            self._outlets.append(Outlet(self._pvs[-1].feed, _declaration(spec, args), reporter))
        for sender, spec in enumerate(specs):
            protocol, name = address(spec["pv"])
            self.client(protocol).follow(sender, name)

    def client(self, protocol: str) -> Union[ChannelAccess, PvAccess]:
        """Returns the client of a protocol."""
        if protocol not in self._clients:
            self._clients[protocol] = ChannelAccess(self.inbox.put) if protocol == "ca" else PvAccess(self.inbox.put)
        return self._clients[protocol]

    def take(self, sender: int, dropped: int, event: Event) -> None:
        """Takes one event of a PV."""
        pv, outlet, now_ns, wall_ns = self._pvs[sender], self._outlets[sender], time.monotonic_ns(), time.time_ns()
        if dropped:
            outlet.do(pv.feed.lost(dropped, "this bridge was too slow", now_ns))
        if isinstance(event, Meta):
            pv.meta(event)
        elif isinstance(event, Reading):
            outlet.do(pv.reading(event, now_ns))
        else:
            outlet.do(pv.feed.away(event, wall_ns))

    def close(self) -> list[dict[str, Any]]:
        """Ends everything that was followed."""
        for client in self._clients.values():
            client.close()
        while isinstance(waiting := self.inbox.get(0), tuple):
            self.take(*waiting)
        return [outlet.close(time.time_ns()) for outlet in self._outlets]


def address(text: str) -> tuple[str, str]:
    """Divides ``ca://NAME``, ``pva://NAME`` or ``NAME`` into protocol and name."""
    protocol, sign, name = text.partition("://")
    if not sign:
        return "ca", text
    if protocol not in {"ca", "pva"} or not name:
        raise tc.ConfigError(f"`{text}` is no PV\nwrite NAME, ca://NAME or pva://NAME")
    return protocol, name


def _number(spec: dict[str, Any], key: str, default: str | None = None) -> Fraction | None:
    value = spec.get(key, default)
    if value is None or isinstance(value, Fraction):
        return value
    try:
        return _run.rate(value)
    except argparse.ArgumentTypeError as error:
        raise tc.ConfigError(f"{key}: {error}") from error


def _pv_of(spec: dict[str, Any]) -> Pv:
    address(spec["pv"])
    if spec.get("stamp", "start") not in {"start", "end"}:
        raise tc.ConfigError(
            f'stamp = "{spec["stamp"]}" is neither "start" nor "end"\nsay which sample of a waveform the IOC\'s time is of'
        )
    if spec.get("bad", "invalid") not in BAD_FROM:
        raise tc.ConfigError(f'bad = "{spec["bad"]}" is not known\nsay one of {", ".join(sorted(BAD_FROM))}')
    flatten, expect = _number(spec, "flatten"), _number(spec, "expect")
    return Pv(
        Feed(spec["pv"], flatten or expect),
        channel=spec.get("channel", "value"),
        flatten=flatten,
        bad_from=BAD_FROM[spec.get("bad", "invalid")],
        with_severity=bool(spec.get("severity", False)),
        stamp_at_end=spec.get("stamp", "start") == "end",
        unit=spec.get("unit"),
    )


def _declaration(spec: dict[str, Any], args: argparse.Namespace) -> Declaration:
    rate = _number(spec, "flatten") or _number(spec, "rate") or _number(spec, "expect") or _run.rate(NOMINAL_RATE)
    labels = {str(key): str(value) for key, value in spec.get("labels", {}).items()}
    is_run = "flatten" in spec
    return Declaration(spec["stream"], rate, args.bus, args.station, own_times=not is_run, labels=labels)


class Outgoing:
    """All channels that go out."""

    def __init__(
        self, specs: Sequence[dict[str, Any]], args: argparse.Namespace, incoming: Incoming, reporter: _run.Reporter
    ) -> None:
        served = [_served(spec) for spec in specs if "pv" in spec]
        self._server: PvServer | None = None
        if served:
            self._server = P4pServer(served) if args.server == "pva" else IocProcess(served, reporter)
        self.failure: BaseException | None = None
        self._incoming = incoming
        self._routes = [self._route(spec, reporter) for spec in specs]
        self._outflow = Outflow(self._routes, bus=args.bus, fail=self._fail)
        self._outflow.start()
        for it in served:
            reporter.say("serving", f"served by {'p4p' if args.server == 'pva' else 'a soft IOC'}", peer=it.pv)

    def close(self) -> tuple[list[dict[str, Any]], list[Any]]:
        """Ends everything; returns the accounts of the routes and of the reader."""
        readers = self._outflow.stop()
        if self._server is not None:
            self._server.close()
        return [{**route.account(), **_failed(route)} for route in self._routes], readers

    def _route(self, spec: dict[str, Any], reporter: _run.Reporter) -> Route:
        rate = None if spec.get("rate") == "all" else _number(spec, "rate", "10")
        if spec.get("thin", "last") not in METHODS:
            raise tc.ConfigError(f'thin = "{spec["thin"]}" is not known\nsay one of {", ".join(sorted(METHODS))}')
        thinner = Thinner(spec.get("thin", "last"), rate)
        sink: Union[ServedSink, PutSink]
        if "pv" in spec:
            assert self._server is not None
            sink = ServedSink(_served(spec), self._server, reporter, spec["stream"])
        else:
            protocol, _ = address(spec["put"])
            sink = PutSink(spec["put"], self._incoming.client(protocol), reporter, spec["stream"])
        return Route(spec["stream"], spec.get("channel"), thinner, sink)

    def _fail(self, error: BaseException) -> None:
        self.failure = error
        self._incoming.inbox.stop()


def _failed(route: Route) -> dict[str, int]:
    return {"failed": route.sink.failed} if isinstance(route.sink, PutSink) else {}


def _served(spec: dict[str, Any]) -> Served:
    kind = spec.get("type", "double")
    if kind not in TYPES:
        raise tc.ConfigError(f'type = "{kind}" is not known\nsay one of {", ".join(TYPES)}')
    return Served(spec["pv"], kind, spec.get("length"), spec.get("unit"))


def run(argv: Sequence[str]) -> int:
    """Bridges until SIGINT or SIGTERM."""
    args = parse(argv)
    incoming_specs, outgoing_specs = entries(args)
    reporter = _run.Reporter("epics", as_json=args.json)
    incoming = Incoming(incoming_specs, args, reporter)
    _run.on_end(incoming.inbox.stop)
    outgoing = Outgoing(outgoing_specs, args, incoming, reporter) if outgoing_specs else None
    failure: BaseException | None = None
    try:
        while (event := incoming.inbox.get(1.0)) is not None:
            if isinstance(event, tuple):
                incoming.take(*event)
    except tc.Error as error:
        failure = error
    accounts, readers = outgoing.close() if outgoing is not None else ([], [])
    accounts = [*incoming.close(), *accounts]
    for account in accounts:
        reporter.account(account)
    for reader in readers:
        reporter.reader_account(reader)
    failure = failure or (outgoing.failure if outgoing is not None else None)
    if failure is not None:
        raise failure
    return 0 if all(it["balanced"] for it in accounts) else 1


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command."""
    return _run.command("epics", run, argv)


if __name__ == "__main__":
    sys.exit(main())
