"""MQTT topics as streams, and streams as topics: ``python -m tallycast.bridges.mqtt``.

The protocol is paho-mqtt's; what payloads mean is in `_payload`, what becomes of a hole in `_feed`; here is the command.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Sequence
from fractions import Fraction
from typing import Any
from urllib.parse import unquote, urlsplit

import tallycast as tc

from . import _run
from ._feed import Feed, Form
from ._mqtt_client import Answer, Connected, Lost, Message, MqttClient, MqttEvent, MqttSink, Server
from ._outflow import Outflow, Route
from ._outlet import Declaration, Outlet
from ._payload import DTYPES, TIME_UNITS, PayloadError, PayloadFormat
from ._thinner import METHODS, Thinner

IN_KEYS = frozenset(
    {
        "topic",
        "stream",
        "payload",
        "dtype",
        "path",
        "channels",
        "units",
        "unit",
        "rate",
        "regular",
        "time",
        "time_unit",
        "sequence",
        "retained",
        "qos",
        "labels",
    }
)
OUT_KEYS = frozenset({"stream", "channel", "topic", "rate", "thin", "payload", "qos", "retain"})

#: Nominal rate of streams whose messages come when they come.
NOMINAL_RATE = "1k"
#: So many topics that a pattern meets become streams; more are a mistake.
MAX_TOPICS = 1_000

EXAMPLES = """\
examples:
  python -m tallycast.bridges.mqtt --server mqtt://broker:1883 --topic plant/flow=lab/flow --unit l/min
  python -m tallycast.bridges.mqtt --topic 'plant/+/state=lab/{1}' --payload json --path flow.value --time ts --time-unit ms
  python -m tallycast.bridges.mqtt --topic daq/raw=lab/daq --payload raw --dtype i16 --channels u,v --rate 10k --regular
  python -m tallycast.bridges.mqtt --publish 'lab/*=tallycast/{stream}/{channel}' --out-rate 5 --retain
"""


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Reads the command line."""
    parser = _run.arguments("mqtt", "MQTT topics in as streams, thinned streams out as topics.", EXAMPLES)
    parser.add_argument(
        "--server",
        default="mqtt://127.0.0.1:1883",
        metavar="URL",
        help="mqtt://[USER@]HOST[:PORT] or mqtts://…; the password is in MQTT_PASSWORD [default: mqtt://127.0.0.1:1883]",
    )
    parser.add_argument("--ca", metavar="FILE", help="certificates of those who may sign the server's, for mqtts")
    parser.add_argument(
        "--client-id",
        metavar="NAME",
        help="name of our session; the broker then keeps messages of QoS 1 and 2 while we are away",
    )
    parser.add_argument(
        "--topic",
        action="append",
        default=[],
        type=_run.pair,
        metavar="TOPIC=STREAM",
        help="follow a topic; + and # may be in it, and {1}, {2} … in STREAM are what they met",
    )
    parser.add_argument("--payload", choices=("number", "json", "raw"), help="what messages hold [default: number]")
    parser.add_argument("--dtype", choices=sorted(DTYPES), help="type of every element [default: f8]")
    parser.add_argument("--path", metavar="PATH", help="where in the JSON the value is: flow.value, values.0")
    parser.add_argument("--channels", metavar="NAMES", help="channels of raw payloads, divided by commas")
    parser.add_argument("--unit", help="unit of the channels")
    parser.add_argument(
        "--time",
        metavar="PATH",
        help="where in the JSON the time of the (first) value is; the time of arrival otherwise",
    )
    parser.add_argument("--time-unit", choices=[*TIME_UNITS, "iso"], help="what it counts [default: s]")
    parser.add_argument(
        "--sequence",
        metavar="PATH",
        help="where in the JSON the sender's own count of samples is: what is missing is counted by it",
    )
    parser.add_argument(
        "--rate",
        type=_run.rate,
        metavar="RATE",
        help=f"samples per second; nominal unless --regular [default: {NOMINAL_RATE}]",
    )
    parser.add_argument("--regular", action="store_true", help="samples come at exactly this rate")
    parser.add_argument(
        "--retained",
        choices=("skip", "take"),
        help="whether a message that the broker kept is a sample [default: skip]",
    )
    parser.add_argument("--qos", type=int, choices=(0, 1, 2), help="quality of service, in and out [default: 1]")
    parser.add_argument(
        "--publish",
        action="append",
        default=[],
        type=_run.pair,
        metavar="PATTERN[:CHANNEL]=TOPIC",
        help="publish streams; {stream} and {channel} in TOPIC are their names",
    )
    parser.add_argument(
        "--out-rate",
        type=_run.rate,
        metavar="RATE",
        help="messages per second of each channel; `all` samples in the file [default: 10]",
    )
    parser.add_argument("--thin", choices=sorted(METHODS), help="what a message tells of its samples [default: last]")
    parser.add_argument("--out-payload", choices=("json", "raw"), help="what messages hold [default: json]")
    parser.add_argument("--retain", action="store_true", help="the broker keeps the newest message")
    parser.add_argument(
        "--status",
        metavar="TOPIC",
        help="where `online` is retained while we run, and `offline` afterwards, however we end",
    )
    return parser.parse_args(argv)


def entries(args: argparse.Namespace) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Returns what is to come in and to go out, from file and command line."""
    read = _run.settings(args.config, {"in": IN_KEYS, "out": OUT_KEYS})
    names = ("payload", "dtype", "path", "unit", "time", "time_unit", "sequence", "rate", "retained", "qos")
    common = {key: getattr(args, key) for key in names if getattr(args, key) is not None}
    if args.regular:
        common["regular"] = True
    if args.channels:
        common["channels"] = {name: name for name in args.channels.split(",")}
    incoming = [*read.get("in", []), *({"topic": topic, "stream": stream, **common} for topic, stream in args.topic)]
    out_names = {
        "rate": args.out_rate,
        "thin": args.thin,
        "payload": args.out_payload,
        "qos": args.qos,
        "retain": args.retain or None,
    }
    out_common = {key: value for key, value in out_names.items() if value is not None}
    outgoing = [*read.get("out", [])]
    for source, topic in args.publish:
        stream, _, channel = source.partition(":")
        outgoing.append({"stream": stream, **({"channel": channel} if channel else {}), "topic": topic, **out_common})
    if not incoming and not outgoing:
        raise tc.ConfigError(
            "nothing to do\nname topics with --topic TOPIC=STREAM, streams with --publish PATTERN=TOPIC, or a file with --config"
        )
    for table, list_of in (("in", incoming), ("out", outgoing)):
        for entry in list_of:
            for key in ("topic", "stream"):
                if key not in entry:
                    raise tc.ConfigError(f"an entry of [[{table}]] has no `{key}`: {entry}")
    return incoming, outgoing


class Subscription:
    """One entry of what comes in: a topic, or a pattern of topics, and how its messages are read."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.topic = str(spec["topic"])
        self.qos = int(spec.get("qos", 1))
        self.takes_retained = spec.get("retained", "skip") == "take"
        self._stream = str(spec["stream"])
        self._pattern = _pattern(self.topic)
        dtype = spec.get("dtype", "f8")
        if dtype not in DTYPES:
            raise tc.ConfigError(f'dtype = "{dtype}" is not known\nsay one of {", ".join(DTYPES)}')
        if spec.get("time_unit", "s") not in {*TIME_UNITS, "iso"}:
            raise tc.ConfigError(
                f'time_unit = "{spec["time_unit"]}" is not known\nsay one of {", ".join(TIME_UNITS)}, iso'
            )
        paths = spec.get("channels") or {"value": spec.get("path", "value" if spec.get("payload") == "json" else "")}
        kind = spec.get("payload", "number")
        if kind not in {"number", "json", "raw"}:
            raise tc.ConfigError(f'payload = "{kind}" is not known\nsay number, json or raw')
        if kind != "json" and (spec.get("time") or spec.get("sequence")):
            raise tc.ConfigError(f'payloads of kind {kind} have neither time nor sequence\nsay payload = "json"')
        self.format = PayloadFormat(
            kind, DTYPES[dtype], paths, spec.get("time"), spec.get("time_unit", "s"), spec.get("sequence")
        )
        self.rate = _rate(spec.get("rate", NOMINAL_RATE))
        self.is_regular = bool(spec.get("regular", False))
        units = spec.get("units", {})
        self.channels = tuple((name, str(units.get(name, spec.get("unit", "")))) for name in paths)
        self.labels = {str(key): str(value) for key, value in spec.get("labels", {}).items()}

    def stream_of(self, topic: str) -> str | None:
        """Returns the stream of a topic; None where it is not one of these."""
        found = self._pattern.fullmatch(topic)
        if found is None:
            return None
        stream = self._stream.replace("{topic}", topic)
        for place, words in enumerate(found.groups(), 1):
            stream = stream.replace(f"{{{place}}}", words)
        return stream


class Incoming:
    """All topics that are followed."""

    def __init__(self, specs: Sequence[dict[str, Any]], args: argparse.Namespace, reporter: _run.Reporter) -> None:
        self.subscriptions = [Subscription(spec) for spec in specs]
        self._args = args
        self._reporter = reporter
        self._topics: dict[str, _Topic] = {}
        self._away: str | None = None
        self.retained = 0

    def message(self, message: Message, dropped: int) -> None:
        """Takes a message, and how many before it were dropped here."""
        found = self._topic(message.topic)
        if found is None:
            return
        if message.retained and not found.subscription.takes_retained:
            self.retained += 1
            return
        now_ns = time.monotonic_ns()
        if dropped:
            found.outlet.do(found.feed.lost(dropped, "this bridge was too slow", now_ns))
        found.take(message, now_ns)

    def away(self, why: str) -> None:
        """Takes the news that the broker is not there."""
        self._away = why
        for topic in self._topics.values():
            topic.outlet.do(topic.feed.away(why, time.time_ns()))

    def back(self, kept: bool) -> None:
        """Takes the news that the broker is there; ``kept``: it has kept what came meanwhile, with QoS 1 and 2."""
        self._away = None
        for topic in self._topics.values():
            if kept and topic.subscription.qos > 0:
                topic.outlet.do(topic.feed.back(time.time_ns()))

    def close(self) -> list[dict[str, Any]]:
        """Ends all streams."""
        return [topic.outlet.close(time.time_ns()) for topic in self._topics.values()]

    def _topic(self, name: str) -> _Topic | None:
        if name in self._topics:
            return self._topics[name]
        for subscription in self.subscriptions:
            stream = subscription.stream_of(name)
            if stream is None:
                continue
            if len(self._topics) >= MAX_TOPICS:
                raise tc.BridgeError(
                    f"more than {MAX_TOPICS} topics match\nname a narrower pattern than {subscription.topic}"
                )
            if any(it.outlet.declaration.stream == stream for it in self._topics.values()):
                raise tc.ConfigError(f"two topics would be the stream {stream}\nput {{1}} or {{topic}} into its name")
            self._topics[name] = _Topic(name, stream, subscription, self._args, self._reporter)
            return self._topics[name]
        return None


class _Topic:
    """One topic with its stream."""

    def __init__(
        self, name: str, stream: str, subscription: Subscription, args: argparse.Namespace, reporter: _run.Reporter
    ) -> None:
        self.subscription = subscription
        self._rate = subscription.rate if subscription.is_regular else None
        # Without times in the messages their arrival tells no hole: only count and rate give times then.
        self._has_times = subscription.format.time is not None
        self.feed = Feed(name, self._rate if self._has_times else None)
        self.outlet = Outlet(
            self.feed,
            Declaration(
                stream,
                subscription.rate,
                args.bus,
                args.station,
                labels=subscription.labels,
                own_times=not subscription.is_regular,
            ),
            reporter,
        )
        self._next: int | None = None

    def take(self, message: Message, now_ns: int) -> None:
        """Takes a message."""
        try:
            content = self.subscription.format.read(message.payload)
        except PayloadError as error:
            self.outlet.do(self.feed.refuse(str(error), now_ns))
            if self._next is not None:
                self._next += 1
            return
        if content.sequence is not None and not self._in_order(content.sequence, len(content.values), now_ns):
            return
        t_ns = content.t_ns
        if t_ns is None and self._rate is None:
            t_ns = message.arrived_ns
        form = Form(self.subscription.channels, self.subscription.format.dtype, (), (("topic", message.topic),))
        self.outlet.do(self.feed.update(form, content.values, t_ns, now_ns))

    def _in_order(self, sequence: int, samples: int, now_ns: int) -> bool:
        """Compares with the sender's count; False for a message that came before."""
        expected, self._next = self._next, sequence + samples
        if expected is None or sequence == expected:
            self.outlet.do(self.feed.back(time.time_ns()))
            return True
        if sequence > expected:
            if self.feed.is_away:
                self.outlet.do(self.feed.back(time.time_ns(), sequence - expected))
            else:
                self.outlet.do(self.feed.lost(sequence - expected, "by the sender's count", now_ns))
            return True
        if sequence + samples <= expected and expected - sequence <= samples:
            self._next = expected
            self.outlet.do(self.feed.seen_again())
            return False
        self.outlet.do(self.feed.restarted(f"the sender counts from {sequence} where {expected} was next"))
        return True


class Outgoing:
    """All streams that go out."""

    def __init__(
        self, specs: Sequence[dict[str, Any]], args: argparse.Namespace, client: MqttClient, reporter: _run.Reporter
    ) -> None:
        self._specs = specs
        self._client = client
        self._reporter = reporter
        self.failure: BaseException | None = None
        for spec in specs:
            if spec.get("thin", "last") not in METHODS or spec.get("payload", "json") not in {"json", "raw"}:
                raise tc.ConfigError(
                    f"`thin` or `payload` of an [[out]] is not known: {spec}\nthin: {', '.join(METHODS)}; payload: json, raw"
                )
            _rate(10 if spec.get("rate") == "all" else spec.get("rate", 10))
        self._outflow = Outflow(
            [], bus=args.bus, fail=self._fail, patterns=[spec["stream"] for spec in specs], expand=self._expand
        )
        self._outflow.start()

    def close(self) -> tuple[list[dict[str, Any]], list[Any]]:
        """Ends everything; returns the accounts of the routes and of the reader."""
        readers = self._outflow.stop()
        self._client.drain()
        accounts = []
        for route in self._outflow.routes:
            assert isinstance(route.sink, MqttSink)
            accounts.append(
                {**route.account(), "published": route.sink.published, "acknowledged": route.sink.acknowledged}
            )
        return accounts, readers

    def _expand(self, stream: str, schema: Any) -> list[Route]:
        """Returns the routes of a stream that was met for the first time."""
        routes = []
        for spec in self._specs:
            if not _stream_pattern(spec["stream"]).fullmatch(stream):
                continue
            for channel in schema.channels:
                if spec.get("channel", channel.name) != channel.name:
                    continue
                topic = spec["topic"].replace("{stream}", stream).replace("{channel}", channel.name)
                rate = None if spec.get("rate") == "all" else _rate(spec.get("rate", 10))
                sink = MqttSink(
                    self._client,
                    topic,
                    stream,
                    channel.name,
                    spec.get("payload", "json"),
                    int(spec.get("qos", 1)),
                    bool(spec.get("retain", False)),
                )
                routes.append(Route(stream, channel.name, Thinner(spec.get("thin", "last"), rate), sink))
        topics = [route.sink.name for route in routes]
        if len(set(topics)) != len(topics):
            raise tc.ConfigError(
                f"several channels of {stream} would be one topic, {topics[0]}\nput {{channel}} into it, or name one channel"
            )
        return routes

    def _fail(self, error: BaseException) -> None:
        self.failure = error
        self._client.inbox.stop()


def _rate(value: Any) -> Fraction:
    try:
        return value if isinstance(value, Fraction) else _run.rate(value)
    except argparse.ArgumentTypeError as error:
        raise tc.ConfigError(str(error)) from error


def _pattern(topic: str) -> re.Pattern[str]:
    """Returns what a topic filter matches, with a group for each + and #."""
    words = topic.split("/")
    if any(("+" in word or "#" in word) and word not in {"+", "#"} for word in words) or "#" in words[:-1] or not topic:
        raise tc.ConfigError(f"`{topic}` is no topic\n+ stands for one word, # for all words at the end")
    parts = ["([^/]*)" if word == "+" else re.escape(word) for word in words if word != "#"]
    text = "/".join(parts)
    if words[-1] == "#":
        text = f"{text}/(.*)" if parts else "(.*)"
    return re.compile(text)


def _stream_pattern(pattern: str) -> re.Pattern[str]:
    """Returns what a stream pattern matches: `*` within a word, `**` any number of words."""
    text = re.escape(pattern).replace(r"/\*\*", "(?:/.*)?").replace(r"\*\*", ".*").replace(r"\*", "[^/]*")
    return re.compile(text)


def _server(args: argparse.Namespace) -> Server:
    try:
        url = urlsplit(args.server)
        port = url.port
    except ValueError:
        raise tc.ConfigError(f"`{args.server}` is no address\nwrite mqtt://HOST:PORT") from None
    if url.scheme not in {"mqtt", "mqtts"} or not url.hostname:
        raise tc.ConfigError(f"`{args.server}` is no address\nwrite mqtt://HOST:PORT or mqtts://HOST:PORT")
    tls = url.scheme == "mqtts"
    user = None if url.username is None else unquote(url.username)
    return Server(
        url.hostname,
        port or (8883 if tls else 1883),
        tls,
        args.ca,
        user,
        os.environ.get("MQTT_PASSWORD"),
        args.client_id,
        args.status,
    )


def run(argv: Sequence[str]) -> int:
    """Bridges until SIGINT or SIGTERM."""
    args = parse(argv)
    incoming_specs, outgoing_specs = entries(args)
    reporter = _run.Reporter("mqtt", as_json=args.json)
    incoming = Incoming(incoming_specs, args, reporter)
    client = MqttClient(_server(args), [(it.topic, it.qos) for it in incoming.subscriptions])
    _run.on_end(client.inbox.stop)
    outgoing = Outgoing(outgoing_specs, args, client, reporter) if outgoing_specs else None
    client.start()
    failure: BaseException | None = None
    try:
        while (event := client.inbox.get(1.0)) is not None:
            if isinstance(event, tuple):
                _take(event[2], event[1], incoming, client, reporter)
    except tc.Error as error:
        failure = error
    accounts, readers = outgoing.close() if outgoing is not None else ([], [])
    client.close()
    try:
        # What had arrived before the end is in the account.
        while failure is None and isinstance(waiting := client.inbox.get(0), tuple):
            if isinstance(waiting[2], Message):
                incoming.message(waiting[2], waiting[1])
    except tc.Error as error:
        failure = error
    accounts = [*incoming.close(), *accounts]
    for account in accounts:
        reporter.account(account)
    if incoming.retained:
        reporter.say(
            "retained",
            f"{incoming.retained} messages that the broker had kept were not taken as samples (--retained take)",
        )
    for reader in readers:
        reporter.reader_account(reader)
    failure = failure or (outgoing.failure if outgoing is not None else None)
    if failure is not None:
        raise failure
    return 0 if all(it["balanced"] for it in accounts) else 1


def _take(event: MqttEvent, dropped: int, incoming: Incoming, client: MqttClient, reporter: _run.Reporter) -> None:
    """Takes one event of the client."""
    if isinstance(event, Message):
        incoming.message(event, dropped)
    elif isinstance(event, Connected):
        reporter.say(
            "connected", "connected" + (", and the broker has kept our session" if event.kept else ""), peer=client.name
        )
        incoming.back(event.kept)
    elif isinstance(event, Lost):
        reporter.say("disconnected", event.why, peer=client.name)
        incoming.away(event.why)
    elif isinstance(event, Answer):
        if event.refused:
            raise tc.BridgeError(
                f"the broker refuses the subscription to {', '.join(event.refused)}\nask who may read them"
            )
        reporter.say("subscribed", ", ".join(it.topic for it in incoming.subscriptions), peer=client.name)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command."""
    return _run.command("mqtt", run, argv)


if __name__ == "__main__":
    sys.exit(main())
