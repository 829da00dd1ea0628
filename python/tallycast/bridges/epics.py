"""EPICS process variables as streams, and streams as process variables: ``python -m tallycast.bridges.epics``.

Channel Access by aioca, PV Access by p4p. What updates mean is decided in `_epics_update` and `_feed`; here is the command.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Any, Union

import tallycast as tc

from . import _entries, _epics_parameters, _outflow, _run
from ._entries import Entry
from ._epics_ca import ChannelAccess, Event
from ._epics_parameters import PARAMETER_KEYS, ParameterPv, Steered, SteeredApp
from ._epics_pva import PvAccess
from ._epics_serve import IocProcess, P4pServer, PutSink, PvServer, Served, ServedSink
from ._epics_update import BAD_FROM, Meta, Pv, Reading, Unreadable
from ._feed import Feed
from ._outflow import Outflow, Route
from ._feed_publisher import Declaration, FeedPublisher
from ._softioc import TYPES

IN_KEYS = frozenset(
    {"pv", "stream", "channel", "unit", "rate", "expect", "flatten", "stamp", "bad", "severity", "labels"}
)
OUT_KEYS = frozenset({"stream", "channel", "pv", "put", "rate", "thin", "type", "length", "unit"})

EXAMPLES = """\
examples:
  python -m tallycast.bridges.epics --pv SWMF:TEMP=lab/temp --pv pva://SWMF:WAVE=lab/wave
  python -m tallycast.bridges.epics --pv SCOPE:CH1=lab/scope --flatten 1M
  python -m tallycast.bridges.epics --serve lab/probe:current=LAB:CURRENT --out-rate 10
  python -m tallycast.bridges.epics --steer MAG:SET=lab/magnet:current
  python -m tallycast.bridges.epics --config epics.toml --json
"""


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Reads the command line."""
    parser = _run.arguments(
        "epics", "EPICS process variables in as streams, thinned streams out as process variables.", EXAMPLES
    )
    _entries.add_pairs(
        parser, "--pv", "PV=STREAM", "follow a PV: NAME, ca://NAME or pva://NAME; may be given several times"
    )
    _entries.add_rate(
        parser,
        "--rate",
        f"nominal samples per second of the streams: the highest rate of updates [default: {_entries.NOMINAL_RATE}]",
    )
    _entries.add_rate(
        parser,
        "--expect",
        "the PVs are updated regularly at this rate: missing samples are counted by the IOC's time stamps",
    )
    _entries.add_rate(
        parser, "--flatten", "waveforms are runs of samples at this rate, not samples of many elements"
    )
    parser.add_argument(
        "--bad", choices=sorted(BAD_FROM), help="lowest severity that makes a value a hole [default: invalid]"
    )
    parser.add_argument("--severity", action="store_true", help="publish the severity as a second channel")
    _entries.add_pairs(parser, "--serve", "STREAM[:CHANNEL]=PV", "serve a channel as a PV of this bridge")
    _entries.add_pairs(parser, "--put", "STREAM[:CHANNEL]=PV", "write a channel to an existing PV")
    _entries.add_pairs(
        parser, "--steer", "PV=APP:NAME", "a PV is the parameter NAME of APP: commands to it are written to the PV"
    )
    parser.add_argument(
        "--server",
        choices=("ioc", "pva"),
        default="ioc",
        help="what serves: a soft IOC (CA and PVA), or p4p (PVA) [default: ioc]",
    )
    _entries.add_out_options(parser, "outputs of each PV")
    return parser.parse_args(argv)


def entries(args: argparse.Namespace) -> tuple[list[Entry], list[Entry], list[Entry]]:
    """Returns the inputs, the outputs and the parameters, from file and command line."""
    read = _entries.settings(args.config, {"in": IN_KEYS, "out": OUT_KEYS, "parameter": PARAMETER_KEYS})
    common = _entries.said(args, "rate", "expect", "flatten", "bad", "severity")
    incoming = [*read.get("in", []), *({"pv": pv, "stream": stream, **common} for pv, stream in args.pv)]
    out_common = _entries.said(args, **_entries.OUT_OPTIONS)
    outgoing = list(read.get("out", []))
    for pairs, key in ((args.serve, "pv"), (args.put, "put")):
        outgoing += ({**_entries.channel_of(source), key: pv, **out_common} for source, pv in pairs)
    parameters = list(read.get("parameter", []))
    parameters += ({"pv": pv, **_epics_parameters.of_text(source)} for pv, source in args.steer)
    _entries.something((incoming, outgoing, parameters), "name PVs with --pv PV=STREAM, streams with --serve STREAM=PV")
    _entries.required("in", incoming, "pv", "stream")
    _entries.required("out", outgoing, "stream")
    _epics_parameters.check(parameters)
    for entry in outgoing:
        if ("pv" in entry) == ("put" in entry):
            raise tc.ConfigError(f"an entry of [[out]] needs either `pv` (serve it) or `put` (write it): {entry}")
    return incoming, outgoing, parameters


class Incoming(_run.Direction):
    """All PVs that are followed."""

    def __init__(self, specs: Sequence[Entry], args: argparse.Namespace, reporter: _run.Reporter) -> None:
        self.inbox: _run.Inbox[Event] = _run.Inbox()
        self._pvs: list[Pv] = []
        self._publishers: list[FeedPublisher] = []
        self._clients: dict[str, Union[ChannelAccess, PvAccess]] = {}
        for spec in specs:
            self._pvs.append(_pv_of(spec))
            self._publishers.append(FeedPublisher(self._pvs[-1].feed, _declaration(spec, args), reporter))
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
        pv, publisher = self._pvs[sender], self._publishers[sender]
        now_ns, wall_ns = time.monotonic_ns(), time.time_ns()
        if dropped:
            publisher.do(pv.feed.lost(dropped, "this bridge was too slow", now_ns))
        if isinstance(event, Meta):
            pv.meta(event)
        elif isinstance(event, Reading):
            publisher.do(pv.reading(event, now_ns))
        elif isinstance(event, Unreadable):
            publisher.do(pv.feed.refuse(event.why, now_ns))
        else:
            publisher.do(pv.feed.away(event, wall_ns))

    def finish(self) -> None:
        """Takes leave of the IOCs."""
        for client in self._clients.values():
            client.close()
        self.inbox.hand_on_rest(self.take)

    def accounts(self) -> list[dict[str, Any]]:
        """Ends everything that was followed."""
        return [publisher.close(time.time_ns()) for publisher in self._publishers]


def address(text: str) -> tuple[str, str]:
    """Divides ``ca://NAME``, ``pva://NAME`` or ``NAME`` into protocol and name."""
    protocol, sign, name = text.partition("://")
    if not sign:
        return "ca", text
    if protocol not in {"ca", "pva"} or not name:
        raise tc.ConfigError(f"`{text}` is no PV\nwrite NAME, ca://NAME or pva://NAME")
    return protocol, name


def _pv_of(spec: Entry) -> Pv:
    address(spec["pv"])
    flatten, expect = _entries.number(spec, "flatten"), _entries.number(spec, "expect")
    return Pv(
        Feed(spec["pv"], flatten or expect),
        channel=spec.get("channel", "value"),
        flatten=flatten,
        bad_from=BAD_FROM[_entries.one_of(spec, "bad", sorted(BAD_FROM), "invalid")],
        with_severity=bool(spec.get("severity", False)),
        # Sample of a waveform that the IOC's time refers to.
        stamp_at_end=_entries.one_of(spec, "stamp", ("start", "end"), "start") == "end",
        unit=spec.get("unit"),
    )


def _declaration(spec: Entry, args: argparse.Namespace) -> Declaration:
    flatten = _entries.number(spec, "flatten")
    rate = flatten or _entries.number(spec, "rate") or _entries.number(spec, "expect") or _entries.nominal_rate(spec)
    return Declaration(
        spec["stream"], rate, args.bus, args.station, own_times=flatten is None, labels=_entries.labels(spec)
    )


class Outgoing(_outflow.Outgoing):
    """All channels that go out as PVs."""

    def __init__(
        self, specs: Sequence[Entry], args: argparse.Namespace, incoming: Incoming, reporter: _run.Reporter
    ) -> None:
        served = [_served(spec) for spec in specs if "pv" in spec]
        self._server: PvServer | None = None
        if served:
            self._server = P4pServer(served) if args.server == "pva" else IocProcess(served, reporter)
        self._incoming = incoming
        routes = [self._route(spec, reporter) for spec in specs]
        super().__init__(Outflow(routes, bus=args.bus, when_failed=incoming.inbox.stop))
        for it in served:
            reporter.say("serving", f"served by {'p4p' if args.server == 'pva' else 'a soft IOC'}", peer=it.pv)

    def finish(self) -> None:
        """Hands over what still waits, and ends the server."""
        super().finish()
        if self._server is not None:
            self._server.close()

    def _route(self, spec: Entry, reporter: _run.Reporter) -> Route:
        sink: Union[ServedSink, PutSink]
        if "pv" in spec:
            assert self._server is not None
            sink = ServedSink(_served(spec), self._server, reporter, spec["stream"])
        else:
            protocol, _ = address(spec["put"])
            sink = PutSink(spec["put"], self._incoming.client(protocol), reporter, spec["stream"])
        return Route(spec["stream"], spec.get("channel"), _entries.thinner(spec), sink)


def _served(spec: Entry) -> Served:
    return Served(spec["pv"], _entries.one_of(spec, "type", TYPES, "double"), spec.get("length"), spec.get("unit"))


def _steered(
    entries: Sequence[Entry], args: argparse.Namespace, incoming: Incoming, reporter: _run.Reporter
) -> Steered:
    by_app: dict[str, list[ParameterPv]] = {}
    for entry in entries:
        protocol, name = address(entry["pv"])
        by_app.setdefault(str(entry["app"]), []).append(ParameterPv(entry, incoming.client(protocol), name))
    place: dict[str, Any] = {"bus": args.bus, "station": args.station, "when_failed": incoming.inbox.stop}
    return Steered([SteeredApp(app, pvs, reporter, **place) for app, pvs in by_app.items()])


def run(argv: Sequence[str]) -> int:
    """Bridges until SIGINT, SIGTERM, or the end of the duration."""
    args = parse(argv)
    incoming_specs, outgoing_specs, parameters = entries(args)
    reporter = _run.Reporter("epics", as_json=args.json)
    incoming = Incoming(incoming_specs, args, reporter)
    _run.on_end(incoming.inbox.stop, args.duration)
    # Outputs end first: a PV that is written to needs its client.
    directions: list[_run.Direction] = [incoming]
    if outgoing_specs:
        directions.insert(0, Outgoing(outgoing_specs, args, incoming, reporter))
    if parameters:
        directions.insert(0, _steered(parameters, args, incoming, reporter))
    return _run.conclude(lambda: incoming.inbox.hand_on(incoming.take), directions, reporter)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command."""
    return _run.command("epics", run, argv)


if __name__ == "__main__":
    sys.exit(main())
