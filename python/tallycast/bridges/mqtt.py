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
from typing import Any
from urllib.parse import unquote, urlsplit

import tallycast as tc

from . import _entries, _outflow, _run
from ._entries import Entry
from ._feed import Feed, Form
from ._mqtt_client import Connected, Lost, Message, MqttClient, MqttEvent, MqttSink, Refused, Server, Strange
from ._outflow import Outflow, Route
from ._feed_publisher import Declaration, FeedPublisher
from ._payload import DTYPES, TIME_UNITS, PayloadError, PayloadFormat

#: Options that are keys of an ``[[in]]``.
IN_OPTIONS = (
    *("payload", "dtype", "path", "channels", "unit", "time", "time_unit"),
    *("sequence", "rate", "regular", "retained", "qos", "allow_nan"),
)
IN_KEYS = frozenset({"topic", "stream", "units", "labels", *IN_OPTIONS})
OUT_KEYS = frozenset({"stream", "channel", "topic", "rate", "thin", "payload", "qos", "retain"})
#: Maximum number of topics that become streams; the messages of others are counted.
MAX_TOPICS = 1_000
#: Maximum number of topics that are remembered as no stream; others are looked at again with every message.
MAX_STRANGE = 10_000

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
    parser.add_argument("--ca", metavar="FILE", help="certificates of trusted issuers, for mqtts")
    parser.add_argument(
        "--client-id",
        metavar="NAME",
        help="name of the session; the broker then keeps messages of QoS 1 and 2 while the bridge is disconnected",
    )
    _entries.add_pairs(
        parser,
        "--topic",
        "TOPIC=STREAM",
        "follow a topic, which may contain + and #; {1}, {2} … in STREAM are replaced by the matched parts",
    )
    parser.add_argument("--payload", choices=("number", "json", "raw"), help="content of messages [default: number]")
    parser.add_argument("--dtype", choices=sorted(DTYPES), help="type of every element [default: f8]")
    parser.add_argument("--path", metavar="PATH", help="path of the value in the JSON: flow.value, values.0")
    parser.add_argument(
        "--channels",
        type=lambda text: {name: name for name in _entries.names(text)},
        metavar="NAMES",
        help="channels of raw payloads, separated by commas",
    )
    parser.add_argument("--unit", help="unit of the channels")
    parser.add_argument(
        "--time",
        metavar="PATH",
        help="path of the time of the (first) value in the JSON [default: the time of arrival]",
    )
    parser.add_argument("--time-unit", choices=[*TIME_UNITS, "iso"], help="unit of the time [default: s]")
    parser.add_argument(
        "--sequence",
        metavar="PATH",
        help="path of the sender's sample count in the JSON, by which missing samples are counted",
    )
    _entries.add_rate(
        parser, "--rate", f"samples per second; nominal unless --regular [default: {_entries.NOMINAL_RATE}]"
    )
    parser.add_argument("--regular", action="store_true", help="samples arrive at exactly this rate")
    parser.add_argument(
        "--retained",
        choices=("skip", "take"),
        help="whether a retained message is a sample [default: skip]",
    )
    parser.add_argument(
        "--allow-nan", action="store_true", help="accept NaN and infinities; otherwise such a message is a hole"
    )
    parser.add_argument("--qos", type=int, choices=(0, 1, 2), help="quality of service, in and out [default: 1]")
    _entries.add_pairs(
        parser,
        "--publish",
        "PATTERN[:CHANNEL]=TOPIC",
        "publish streams; {stream} and {channel} in TOPIC are their names",
    )
    _entries.add_out_options(parser, "messages of each channel")
    parser.add_argument("--out-payload", choices=("json", "raw"), help="content of messages [default: json]")
    parser.add_argument("--retain", action="store_true", help="the broker keeps the newest message")
    parser.add_argument(
        "--status",
        metavar="TOPIC",
        help="topic that holds `online` while the bridge runs, and `offline` afterwards, retained",
    )
    return parser.parse_args(argv)


def entries(args: argparse.Namespace) -> tuple[list[Entry], list[Entry]]:
    """Returns the inputs and outputs, from file and command line."""
    read = _entries.settings(args.config, {"in": IN_KEYS, "out": OUT_KEYS})
    common = _entries.said(args, *IN_OPTIONS)
    incoming = [*read.get("in", []), *({"topic": topic, "stream": stream, **common} for topic, stream in args.topic)]
    out_common = _entries.said(args, "qos", "retain", payload="out_payload", **_entries.OUT_OPTIONS)
    outgoing = list(read.get("out", []))
    outgoing += ({**_entries.channel_of(source), "topic": topic, **out_common} for source, topic in args.publish)
    _entries.something((incoming, outgoing), "name topics with --topic TOPIC=STREAM, streams with --publish PATTERN=TOPIC")
    _entries.required("in", incoming, "topic", "stream")
    _entries.required("out", outgoing, "topic", "stream")
    return incoming, outgoing


class Subscription:
    """One entry of what comes in: a topic, or a pattern of topics, and how its messages are read."""

    def __init__(self, spec: Entry) -> None:
        self.topic = str(spec["topic"])
        self.qos = _qos(spec)
        self.takes_retained = _entries.one_of(spec, "retained", ("skip", "take"), "skip") == "take"
        self._stream = str(spec["stream"])
        self._pattern = _pattern(self.topic)
        dtype = DTYPES[_entries.one_of(spec, "dtype", DTYPES, "f8")]
        time_unit = _entries.one_of(spec, "time_unit", [*TIME_UNITS, "iso"], "s")
        kind = _entries.one_of(spec, "payload", ("number", "json", "raw"), "number")
        paths = spec.get("channels") or {"value": spec.get("path", "value" if kind == "json" else "")}
        if kind != "json" and (spec.get("time") or spec.get("sequence")):
            raise tc.ConfigError(f'payloads of kind {kind} have neither time nor sequence\nsay payload = "json"')
        allow_nan = bool(spec.get("allow_nan", False))
        self.format = PayloadFormat(kind, dtype, paths, spec.get("time"), time_unit, spec.get("sequence"), allow_nan)
        self.rate = _entries.nominal_rate(spec)
        self.is_regular = bool(spec.get("regular", False))
        units = spec.get("units", {})
        self.channels = tuple((name, str(units.get(name, spec.get("unit", "")))) for name in paths)
        self.labels = _entries.labels(spec)

    def stream_of(self, topic: str) -> str | None:
        """Returns the stream of a topic; None where it is not one of these."""
        found = self._pattern.fullmatch(topic)
        if found is None:
            return None
        stream = self._stream.replace("{topic}", topic)
        for place, words in enumerate(found.groups(), 1):
            stream = stream.replace(f"{{{place}}}", words)
        return stream


class Incoming(_run.Direction):
    """All topics that are followed."""

    def __init__(self, specs: Sequence[Entry], args: argparse.Namespace, reporter: _run.Reporter) -> None:
        self.subscriptions = [Subscription(spec) for spec in specs]
        self.client = MqttClient(_server(args), [(it.topic, it.qos) for it in self.subscriptions])
        self._args = args
        self._reporter = reporter
        self._topics: dict[str, _Topic] = {}
        self._away: str | None = None
        self._retained = 0
        #: Topics that cannot be streams, and the messages of them and of topics that are no text.
        self._strange: set[str] = set()
        self._strange_messages = 0

    def take(self, _: int, dropped: int, event: MqttEvent) -> None:
        """Takes one event of the client."""
        if isinstance(event, Message):
            self._message(event, dropped)
        elif isinstance(event, Connected):
            kept = ", and the broker has kept the session" if event.kept else ""
            self._reporter.say("connected", f"connected{kept}", peer=self.client.name)
            self._back(event.kept)
        elif isinstance(event, Lost):
            self._reporter.say("disconnected", event.why, peer=self.client.name)
            self._gone(event.why)
        elif isinstance(event, Strange):
            self._not_a_stream("", "a topic is not UTF-8")
        elif isinstance(event, Refused):
            raise tc.BridgeError(event.why)
        else:
            if event.refused:
                raise tc.BridgeError(
                    f"the broker refuses the subscription to {', '.join(event.refused)}\ncheck the permissions of this user"
                )
            topics = ", ".join(it.topic for it in self.subscriptions)
            self._reporter.say("subscribed", topics, peer=self.client.name)

    def finish(self) -> None:
        """Takes leave of the broker."""
        self.client.close()
        self.client.inbox.hand_on_rest(self.take)

    def accounts(self) -> list[dict[str, Any]]:
        """Ends all streams."""
        if self._retained:
            self._reporter.say(
                "retained",
                f"{self._retained} retained messages were not used as samples (--retained take)",
            )
        if self._strange_messages:
            self._reporter.say(
                "strange", f"{self._strange_messages} messages of topics that cannot be streams were not used"
            )
        return [topic.publisher.close(time.time_ns()) for topic in self._topics.values()]

    def _message(self, message: Message, dropped: int) -> None:
        """Takes a message, and how many before it were dropped here."""
        found = self._topic(message.topic)
        if found is None:
            return
        if message.retained and not found.subscription.takes_retained:
            self._retained += 1
            return
        now_ns = time.monotonic_ns()
        if dropped:
            found.publisher.do(found.feed.lost(dropped, "this bridge was too slow", now_ns))
        found.take(message, now_ns)

    def _gone(self, why: str) -> None:
        """Handles the loss of the broker."""
        self._away = why
        for topic in self._topics.values():
            topic.publisher.do(topic.feed.away(why, time.time_ns()))

    def _back(self, kept: bool) -> None:
        """Handles a connection to the broker; ``kept``: it has kept the messages of QoS 1 and 2 sent meanwhile."""
        self._away = None
        for topic in self._topics.values():
            if kept and topic.subscription.qos > 0:
                topic.publisher.do(topic.feed.back(time.time_ns()))

    def _topic(self, name: str) -> _Topic | None:
        if name in self._topics:
            return self._topics[name]
        if name in self._strange:
            self._strange_messages += 1
            return None
        for subscription in self.subscriptions:
            stream = subscription.stream_of(name)
            if stream is not None:
                return self._begin_topic(name, stream, subscription)
        return None

    def _begin_topic(self, name: str, stream: str, subscription: Subscription) -> _Topic | None:
        """Makes the stream of a topic that is new."""
        if len(self._topics) >= MAX_TOPICS:
            self._not_a_stream(
                name, f"more than {MAX_TOPICS} topics match\nname a narrower pattern than {subscription.topic}"
            )
        elif any(it.publisher.declaration.stream == stream for it in self._topics.values()):
            self._not_a_stream(name, f"two topics map to the stream {stream}\nput {{1}} or {{topic}} into its name")
        else:
            try:
                self._topics[name] = _Topic(name, stream, subscription, self._args, self._reporter)
                return self._topics[name]
            except tc.ConfigError as error:
                self._not_a_stream(name, str(error))
        return None

    def _not_a_stream(self, topic: str, why: str) -> None:
        """Counts a message of a topic that cannot be a stream, and says so once for each topic."""
        self._strange_messages += 1
        if topic not in self._strange and len(self._strange) < MAX_STRANGE:
            self._strange.add(topic)
            self._reporter.say("strange", why, peer=topic or self.client.name)


class _Topic:
    """One topic with its stream."""

    def __init__(
        self, name: str, stream: str, subscription: Subscription, args: argparse.Namespace, reporter: _run.Reporter
    ) -> None:
        self.subscription = subscription
        self._rate = subscription.rate if subscription.is_regular else None
        # Without times in the messages their arrival reveals no hole: then times follow only from count and rate.
        self._has_times = subscription.format.time is not None
        self.feed = Feed(name, self._rate if self._has_times else None)
        self.publisher = FeedPublisher(
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
            self.publisher.do(self.feed.refuse(str(error), now_ns))
            if self._next is not None:
                self._next += 1
            return
        if content.sequence is not None and not self._in_order(content.sequence, len(content.values), now_ns):
            return
        t_ns = content.t_ns
        if t_ns is None and self._rate is None:
            t_ns = message.arrived_ns
        form = Form(self.subscription.channels, self.subscription.format.dtype, (), (("topic", message.topic),))
        self.publisher.do(self.feed.update(form, content.values, t_ns, now_ns))

    def _in_order(self, sequence: int, samples: int, now_ns: int) -> bool:
        """Compares with the sender's count; False for a message that came before."""
        expected, self._next = self._next, sequence + samples
        if expected is None or sequence == expected:
            self.publisher.do(self.feed.back(time.time_ns()))
            return True
        if sequence > expected:
            if self.feed.is_away:
                self.publisher.do(self.feed.back(time.time_ns(), sequence - expected))
            else:
                self.publisher.do(self.feed.lost(sequence - expected, "by the sender's count", now_ns))
            return True
        if sequence + samples <= expected and expected - sequence <= samples:
            self._next = expected
            self.publisher.do(self.feed.seen_again())
            return False
        self.publisher.do(self.feed.restarted(f"the sender counts from {sequence} where {expected} was next"))
        return True


class Outgoing(_outflow.Outgoing):
    """All streams that go out as topics."""

    def __init__(
        self, specs: Sequence[Entry], args: argparse.Namespace, client: MqttClient, reporter: _run.Reporter
    ) -> None:
        self._specs = specs
        self._client = client
        self._reporter = reporter
        for spec in specs:
            # Errors of an entry are reported before its first stream appears.
            _entries.thinner(spec), _payload(spec), _qos(spec)
        patterns = [spec["stream"] for spec in specs]
        super().__init__(
            Outflow((), bus=args.bus, when_failed=client.inbox.stop, patterns=patterns, expand=self._expand)
        )

    def finish(self) -> None:
        """Hands over what still waits, and waits for its acknowledgement."""
        super().finish()
        self._client.drain()

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
                sink = MqttSink(
                    self._client,
                    topic,
                    stream,
                    channel.name,
                    _payload(spec),
                    _qos(spec),
                    bool(spec.get("retain", False)),
                )
                routes.append(Route(stream, channel.name, _entries.thinner(spec), sink))
        topics = [route.sink.name for route in routes]
        strange = next((topic for topic in topics if "+" in topic or "#" in topic), None)
        if strange is not None:
            why = f"`{strange}` is a pattern, no topic\nname the channel's topic in an [[out]] of its own"
        elif len(set(topics)) != len(topics):
            why = f"several channels of {stream} map to one topic, {topics[0]}\nput {{channel}} into it, or name one channel"
        else:
            return routes
        # Another stream of the pattern is no worse for it.
        self._reporter.say("refused", why, stream=stream)
        return []


def _payload(spec: Entry) -> str:
    return _entries.one_of(spec, "payload", ("json", "raw"), "json")


def _qos(spec: Entry) -> int:
    return _entries.one_of(spec, "qos", (0, 1, 2), 1)


def _pattern(topic: str) -> re.Pattern[str]:
    """Returns what a topic filter matches, with a group for each + and #."""
    words = topic.split("/")
    if any(("+" in word or "#" in word) and word not in {"+", "#"} for word in words) or "#" in words[:-1] or not topic:
        raise tc.ConfigError(f"invalid topic `{topic}`\n+ matches one word, # all words at the end")
    parts = ["([^/]*)" if word == "+" else re.escape(word) for word in words if word != "#"]
    text = "/".join(parts)
    if words[-1] == "#":
        text = f"{text}/(.*)" if parts else "(.*)"
    return re.compile(text)


def _stream_pattern(pattern: str) -> re.Pattern[str]:
    """Returns the matches of a stream pattern: `*` within a word, `**` any number of words."""
    text = re.escape(pattern).replace(r"/\*\*", "(?:/.*)?").replace(r"\*\*", ".*").replace(r"\*", "[^/]*")
    return re.compile(text)


def _server(args: argparse.Namespace) -> Server:
    try:
        url = urlsplit(args.server)
        port = url.port
    except ValueError:
        raise tc.ConfigError(f"invalid address `{args.server}`\nwrite mqtt://HOST:PORT") from None
    if url.scheme not in {"mqtt", "mqtts"} or not url.hostname:
        raise tc.ConfigError(f"invalid address `{args.server}`\nwrite mqtt://HOST:PORT or mqtts://HOST:PORT")
    if url.password is not None:
        raise tc.ConfigError(
            "a password in --server is visible in the list of processes\nput it into the variable MQTT_PASSWORD"
        )
    tls = url.scheme == "mqtts"
    if args.ca is not None and not tls:
        raise tc.ConfigError("--ca needs mqtts://, and --server is mqtt://\nwrite mqtts://HOST:PORT")
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
    """Bridges until SIGINT, SIGTERM, or the end of the duration."""
    args = parse(argv)
    incoming_specs, outgoing_specs = entries(args)
    reporter = _run.Reporter("mqtt", as_json=args.json)
    tc.streams(0.0, args.bus)
    incoming = Incoming(incoming_specs, args, reporter)
    client = incoming.client
    _run.on_end(client.inbox.stop, args.duration)
    # Outputs end first: their last messages need the client.
    directions: list[_run.Direction] = [incoming]
    if outgoing_specs:
        directions.insert(0, Outgoing(outgoing_specs, args, client, reporter))
    client.start()
    return _run.conclude(lambda: client.inbox.hand_on(incoming.take), directions, reporter)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command."""
    return _run.command("mqtt", run, argv)


if __name__ == "__main__":
    sys.exit(main())
