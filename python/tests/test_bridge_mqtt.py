"""The MQTT bridge against mosquitto: bit by bit, and with holes exactly where they were planted."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("paho.mqtt.client")
PROGRAM = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")
if PROGRAM is None:
    pytest.skip("mosquitto is not installed: apt-get install mosquitto", allow_module_level=True)

import paho.mqtt.client as paho

import tallycast as tc
from bridge_peers import PACKAGE, Bridge, Mosquitto, Reader, SecureMosquitto, certificate, holes, new_bus
from places import WATCHDOG, free_ports, until

T0_NS = 1_790_000_000_000_000_000


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    assert PROGRAM is not None
    with Mosquitto(PROGRAM, tmp_path, free_ports(1)[0]) as running:
        yield running


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[SecureMosquitto]:
    for tool in ("openssl", "mosquitto_passwd"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed: apt-get install openssl mosquitto")
    assert PROGRAM is not None
    with SecureMosquitto(PROGRAM, tmp_path, free_ports(1)[0]) as running:
        yield running


class Client:
    """A device of the test: publishes, and receives what the bridge publishes."""

    def __init__(self, broker: Mosquitto, *topics: str, qos: int = 1) -> None:
        self.heard: list[Any] = []
        self._qos = qos
        self._client = paho.Client(paho.CallbackAPIVersion.VERSION2)
        if broker.login is not None:
            self._client.username_pw_set(*broker.login)
        if broker.ca is not None:
            self._client.tls_set(ca_certs=str(broker.ca))
        self._client.on_message = lambda client, data, message: self.heard.append(message)
        # Number of times it was connected with its subscriptions known to the broker.
        self._times = 0
        self._client.on_connect = lambda client, *rest: client.subscribe([(it, qos) for it in (*topics, "nothing")])
        self._client.on_subscribe = self._on_subscribe
        self._client.reconnect_delay_set(1, 1)
        self._client.connect("127.0.0.1", broker.port)
        self._client.loop_start()
        until(lambda: self._times == 1)

    def _on_subscribe(self, *_: object) -> None:
        self._times += 1

    def send(self, topic: str, payload: Any, *, retain: bool = False) -> None:
        """Publishes, and waits until the broker has it; with QoS 0, until it has left."""
        body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        self._client.publish(topic, body, qos=self._qos, retain=retain).wait_for_publish(30)

    def wait_connected_again(self) -> None:
        until(lambda: self._times == 2)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.disconnect()
        self._client.loop_stop()


def bridge_to(broker: Mosquitto, bus: str, *options: str) -> Bridge:
    user, env = "", {}
    if broker.login is not None:
        user, env = f"{broker.login[0]}@", {"MQTT_PASSWORD": broker.login[1]}
    scheme, ca = ("mqtt", []) if broker.ca is None else ("mqtts", [f"--ca={broker.ca}"])
    return Bridge("mqtt", bus, f"--server={scheme}://{user}127.0.0.1:{broker.port}", *ca, *options, env=env)


JSON = ("--payload=json", "--time=t", "--time-unit=ns", "--sequence=n")


class Device:
    """Sends numbered messages, and knows what of them has to arrive."""

    def __init__(self, client: Client, reader: Reader, dtype: str = "f8") -> None:
        self._client, self._reader, self._numbers = client, reader, itertools.count()
        self._random = np.random.default_rng(3)
        #: By index in the stream, counted from the first message that the bridge took.
        self.truth: list[tuple[float, int] | None] = []

    def send(self) -> None:
        number, value = next(self._numbers), float(self._random.standard_normal())
        self._client.send("dev/a", {"value": value, "t": T0_NS + number * 1_000_003, "n": number})
        self.truth.append((value, T0_NS + number * 1_000_003))

    def send_until_read(self) -> None:
        index = len(self.truth)
        self.send()
        self._reader.wait_for("lab/a", index)

    def send_until_joined(self) -> None:
        """Sends until the reader has a sample."""

        def has_come() -> bool:
            self.send()
            return bool(self._reader.samples_of("lab/a"))

        until(has_come)
        self._reader.wait_for("lab/a", len(self.truth) - 1)

    def lose(self, count: int) -> None:
        """Counts messages without a receiver."""
        for _ in range(count):
            next(self._numbers)
            self.truth.append(None)

    def check(self, account: Any) -> None:
        first = account["elements"]["first"]
        expected = {index: it for index, it in enumerate(self.truth) if it is not None and index >= first}
        assert {index: (float(value.item()), t) for index, (value, t) in self._reader.samples_of("lab/a").items()} == expected
        assert account.delivered == len(expected)


@pytest.mark.parametrize("transport", ["shm", "udp"])
def test_messages_are_samples_with_the_senders_times_and_its_count_tells_what_is_missing(
    broker: Mosquitto, transport: str
) -> None:
    bus = new_bus(transport)
    with (
        Reader(bus, "lab/*") as reader,
        Client(broker) as client,
        bridge_to(broker, bus, "--topic=dev/a=lab/a", "--unit=bar", *JSON) as bridge,
    ):
        bridge.wait_for("subscribed")
        device = Device(client, reader)
        device.send_until_joined()
        for _ in range(50):
            device.send()
        planted = len(device.truth)
        device.lose(7)
        device.send_until_read()
        client.send("dev/a", b"not json")
        bridge.wait_for("refused")
        device.lose(1)
        device.send_until_read()
        counters = bridge.end()["in dev/a"]
        account = reader.end()["lab/a"][0]
        device.check(account)
    assert holes(account) == [(planted, 7), (planted + 8, 1)]
    assert counters["skipped"] == {"missed": 7, "refused": 1} and counters["refused"] == 1
    assert reader.schemas["lab/a"][0].channels[0].unit == "bar"


def round_trip(broker: Mosquitto, qos: int) -> None:
    """Sends numbered messages through a stream and out again, and checks every account on the path."""
    bus = new_bus()
    options = ("--topic=dev/a=lab/a", "--publish=lab/a=back/a", "--out-rate=1k", f"--qos={qos}", *JSON)
    with (
        Reader(bus, "lab/*") as reader,
        Client(broker, "back/a", qos=qos) as client,
        bridge_to(broker, bus, *options) as bridge,
    ):
        bridge.wait_for("subscribed")
        device = Device(client, reader)
        device.send_until_joined()
        for _ in range(100):
            device.send()
        device.send_until_read()

        def told() -> list[Any]:
            return [json.loads(it.payload) for it in client.heard if b"ended" not in it.payload]

        until(lambda: told() and told()[-1]["value"] == device.truth[-1][0])
        accounts = bridge.end()
        account = reader.end()["lab/a"][0]
        device.check(account)
        ins, outs = accounts["in dev/a"], accounts["out back/a"]
        until(lambda: len(client.heard) == outs["published"])
    assert holes(account) == [] and ins["sent"] == ins["samples"] == len(device.truth) and ins["repeated"] == 0
    assert {it.qos for it in client.heard} == {qos}
    assert outs["read"] == outs["told"] == sum(it["samples"] for it in told()) and outs["missing"] == 0
    assert outs["published"] == outs["acknowledged"]
    assert sum(it["missing"] for it in told()) == outs["told_missing"] == 0


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_every_quality_of_service_brings_each_message_once(broker: Mosquitto, qos: int) -> None:
    round_trip(broker, qos)


def test_with_a_password_over_tls_it_is_as_without(secure: SecureMosquitto) -> None:
    round_trip(secure, 1)


def refused(*options: str, password: str = "") -> str:
    """Runs a bridge that cannot start; returns its message."""
    command = [sys.executable, "-m", "tallycast.bridges.mqtt", "--bus", new_bus(), "--topic=dev/a=lab/a", *options]
    env = {**os.environ, "PYTHONPATH": PACKAGE, "MQTT_PASSWORD": password}
    ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=WATCHDOG, check=False)
    assert ended.returncode == 2, ended
    assert "Traceback" not in ended.stderr
    return ended.stderr


def test_who_is_not_let_in_is_told_why_and_ends(secure: SecureMosquitto, tmp_path: Path) -> None:
    host, ca = f"127.0.0.1:{secure.port}", f"--ca={secure.ca}"
    for user, password in (("lab@", "wrong"), ("nobody@", "right"), ("", "")):
        said = refused(f"--server=mqtts://{user}{host}", ca, password=password)
        assert f"error: the broker {host} refuses us: Not authorized\ncheck the user in --server" in said
    stranger, _ = certificate(tmp_path, "stranger")
    for others in ([f"--ca={stranger}"], []):
        said = refused(f"--server=mqtts://lab@{host}", *others, password="right")
        assert f"error: the certificate of the broker {host} is not trusted: self" in said
        assert "name the certificate of its issuer with --ca" in said
    assert "cannot read certificates" in refused(f"--server=mqtts://lab@{host}", "--ca=/nowhere")
    (tmp_path / "none.pem").write_text("none")
    assert "cannot read certificates" in refused(f"--server=mqtts://lab@{host}", f"--ca={tmp_path}/none.pem")
    assert "put it into the variable MQTT_PASSWORD" in refused(f"--server=mqtts://lab:right@{host}", ca)
    assert "write mqtts://" in refused(f"--server=mqtt://lab@{host}", ca)


def check_outage(broker: Mosquitto, lost: int, meanwhile: Callable[[Bridge], None]) -> Bridge:
    """Follows a device while the broker is killed, this many messages are lost, and it is restarted; returns the bridge."""
    bus = new_bus()
    with (
        Reader(bus, "lab/*") as reader,
        Client(broker) as client,
        bridge_to(broker, bus, "--topic=dev/a=lab/a", *JSON) as bridge,
    ):
        bridge.wait_for("subscribed")
        device = Device(client, reader)
        device.send_until_joined()
        planted = len(device.truth)
        broker.kill()
        bridge.wait_for("away")
        meanwhile(bridge)
        device.lose(lost)
        broker.restart()
        bridge.wait_for("subscribed", 2)
        client.wait_connected_again()
        device.send_until_read()
        counters = bridge.end()["in dev/a"]
        account = reader.end()["lab/a"][0]
        device.check(account)
    assert holes(account) == [(planted, lost)]
    assert counters["outages"] == 1 and counters["outage_list"][0]["samples"] == lost and counters["uncounted"] == 0
    return bridge


def test_who_was_let_in_before_waits_until_it_is_again(secure: SecureMosquitto) -> None:
    def change_the_password(bridge: Bridge) -> None:
        secure.set_login("lab", "another")
        secure.restart()
        until(lambda: [it for it in bridge.of("disconnected") if "trying again, since it worked before" in it["text"]])
        secure.kill()
        secure.set_login("lab", "right")

    check_outage(secure, 3, change_the_password)


def test_a_broker_that_is_killed_and_restarted_leaves_a_hole_that_the_count_measures(broker: Mosquitto) -> None:
    bridge = check_outage(broker, 4, lambda bridge: None)
    assert len(bridge.of("disconnected")) == 1, "failed attempts have the same reason, and are reported once"


def test_without_a_count_an_outage_is_a_mark_of_one_sample_and_said_to_be_uncounted(broker: Mosquitto) -> None:
    bus = new_bus()
    with (
        Reader(bus, "lab/*") as reader,
        Client(broker) as client,
        bridge_to(broker, bus, "--topic=dev/+/x=lab/{1}") as bridge,
    ):
        bridge.wait_for("subscribed")
        numbers = itertools.count()

        def send() -> int:
            number = next(numbers)
            client.send("dev/b/x", str(number).encode())
            return number

        until(lambda: send() >= 0 and reader.samples_of("lab/b"))
        last = send()
        reader.wait_for("lab/b", last)
        broker.kill()
        bridge.wait_for("away")
        broker.restart()
        bridge.wait_for("subscribed", 2)
        client.wait_connected_again()
        after = send()
        reader.wait_for("lab/b", after + 1)
        counters = bridge.end()["in dev/b/x"]
        account = reader.end()["lab/b"][0]
    assert holes(account) == [(last + 1, 1)] and counters["uncounted"] == 1
    for index, (value, _) in reader.samples_of("lab/b").items():
        assert value.item() == (index if index <= last else index - 1)


def test_raw_elements_of_several_channels_arrive_bit_by_bit(broker: Mosquitto) -> None:
    bus = new_bus()
    options = ("--payload=raw", "--dtype=i16", "--channels=u,v", "--rate=10k", "--regular", "--topic=daq=lab/a")
    with Reader(bus, "lab/*") as reader, Client(broker) as client, bridge_to(broker, bus, *options) as bridge:
        bridge.wait_for("subscribed")
        random, sent = np.random.default_rng(5), []

        def send() -> None:
            block = random.integers(-(2**15), 2**15, (100, 2)).astype("<i2")
            client.send("daq", block.tobytes())
            sent.append(block)

        until(lambda: send() or reader.samples_of("lab/a"))
        for _ in range(20):
            send()
        reader.wait_for("lab/a", 100 * len(sent) - 1)
        counters = bridge.end()["in daq"]
        account = reader.end()["lab/a"][0]
    whole = np.concatenate(sent)
    samples = reader.samples_of("lab/a")
    first = account["elements"]["first"]
    assert sorted(samples) == list(range(first, len(whole))) and account.delivered == 2 * len(samples)
    assert all(samples[index][0].tolist() == whole[index].tolist() for index in samples)
    assert counters["samples"] == len(whole) and counters["sent"] == len(sent)


def test_what_the_broker_had_retained_is_no_sample_unless_it_is_asked_for(broker: Mosquitto) -> None:
    bus = new_bus()
    with Reader(bus, "lab/*") as reader, Client(broker) as client:
        client.send("old/a", b"1", retain=True)
        with (
            bridge_to(broker, bus, "--topic=old/a=lab/skipped") as skipping,
            bridge_to(broker, bus, "--topic=old/a=lab/taken", "--retained=take") as taking,
        ):
            taking.wait_for("began")
            skipping.wait_for("subscribed")
            client.send("old/a", b"2")
            skipping.wait_for("began")
            until(lambda: reader.samples_of("lab/skipped") or client.send("old/a", b"3"))
            assert skipping.end()["in old/a"]["updates"] >= 1
            assert "1 retained messages" in skipping.wait_for("retained")["text"]
            taking.end()
        reader.end()


@pytest.mark.parametrize("qos", [1, 2])
def test_a_session_that_the_broker_keeps_has_no_hole(broker: Mosquitto, qos: int) -> None:
    bus = new_bus()
    options = ("--topic=dev/a=lab/a", "--client-id=tallycast-test", f"--qos={qos}", *JSON)
    with Reader(bus, "lab/*") as reader, Client(broker, qos=qos) as client:
        with bridge_to(broker, bus, *options) as bridge:
            bridge.wait_for("subscribed")
            device = Device(client, reader)
            device.send_until_joined()
            # The connection is cut, the broker stays: by another client of the same name.
            rival = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id="tallycast-test", clean_session=False)
            rival.connect("127.0.0.1", broker.port)
            rival.loop_start()
            bridge.wait_for("away")
            rival.disconnect()
            rival.loop_stop()
            device.send()
            device.send()
            bridge.wait_for("back")
            device.send_until_read()
            counters = bridge.end()["in dev/a"]
        account = reader.end()["lab/a"][0]
        device.check(account)
    assert holes(account) == [] and counters["uncounted"] == 0 and counters["outages"] >= 1


def test_streams_are_published_thinned_and_every_sample_is_in_one_message(broker: Mosquitto) -> None:
    bus = new_bus()
    with Client(broker, "out/#", "state") as client:
        with bridge_to(
            broker, bus, "--publish=lab/*=out/{stream}/{channel}", "--out-rate=20", "--thin=mean", "--status=state"
        ) as bridge:
            until(lambda: [it for it in client.heard if it.topic == "state" and it.payload == b"online"])
            with tc.Publisher("lab/p", {"u": "V", "i": "A"}, "f8", rate=1_000, bus=bus) as publisher:
                blocks = itertools.count()
                until(
                    lambda: publisher.send_when_due(np.full((10, 2), [2.0, next(blocks)])) or len(client.heard) > 9
                )
                publisher.skip(30)
                publisher.send_when_due(np.full((10, 2), [2.0, 1.0]))
            until(lambda: len([it for it in client.heard if b"ended" in it.payload]) == 2, lambda: client.heard)
            accounts = bridge.end()
        until(lambda: client.heard[-1].payload == b"offline")
    for channel in ("u", "i"):
        out = accounts[f"out out/lab/p/{channel}"]
        messages = [json.loads(it.payload) for it in client.heard if it.topic == f"out/lab/p/{channel}"]
        told = [it for it in messages if "ended" not in it]
        assert out["read"] == out["told"] == sum(it["samples"] for it in told)
        assert out["missing"] == out["told_missing"] == sum(it["missing"] for it in told) == 30
        assert out["published"] == out["acknowledged"] == len(messages)
        assert told[-1]["why"] == "30 samples missing: source" and told[0]["unit"] == {"u": "V", "i": "A"}[channel]
        if channel == "u":
            assert {it["value"] for it in told} == {2.0}
    reader = bridge.of("account", stream="lab/p")[0]
    assert reader["closed"] and reader["balanced"] and reader["elements"]["lost"] == {"source": 60}
    assert reader["elements"]["delivered"] == 2 * accounts["out out/lab/p/u"]["read"]


def test_while_the_broker_is_away_outputs_wait_and_become_one(broker: Mosquitto) -> None:
    bus = new_bus()
    with (
        bridge_to(broker, bus, "--publish=lab/p=out", "--out-rate=100") as bridge,
        tc.Publisher("lab/p", rate=1_000, bus=bus) as publisher,
    ):
        bridge.wait_for("connected")
        with Client(broker, "out") as client:
            until(lambda: publisher.send([1.0]) or client.heard)
            broker.kill()
            bridge.wait_for("disconnected")
            for k in range(100):
                publisher.send([float(k)])
            broker.restart()
            bridge.wait_for("connected", 2)
            client.wait_connected_again()
            publisher.send([7.5])
            until(lambda: json.loads(client.heard[-1].payload)["value"] == 7.5)
            out = bridge.end()["out out"]
    assert out["read"] == out["told"] and out["missing"] == 0


def test_what_cannot_be_is_said_before_anything_begins() -> None:
    for arguments in (
        [],
        ["--topic=a/b+=lab/a"],
        ["--server=http://x", "--topic=a=lab/a"],
        ["--topic=a=lab/a", "--time=t"],
    ):
        assert Bridge("mqtt", new_bus(), *arguments).process.wait(60) == 2


def test_no_message_ends_the_bridge_and_every_one_is_counted(broker: Mosquitto) -> None:
    bus = new_bus()
    strange = [
        *(b'{"value": 1' + b"0" * digits + b"}" for digits in (400, 5_000)),
        b"[" * 200_000,
        b'{"value": NaN, "t": 1790000000000000000, "n": 1}',
        b'{"value": 1, "t": 1e300, "n": 1}',
        b'{"value": 1, "t": 1790000000000000000, "n": 1e9}',
        b"\xff\x00\x1b[2J",
        b"",
    ]
    with (
        Reader(bus, "lab/*") as reader,
        Client(broker) as client,
        bridge_to(broker, bus, "--topic=dev/#=lab/{1}", *JSON) as bridge,
    ):
        bridge.wait_for("subscribed")
        device = Device(client, reader)
        device.send_until_joined()
        before = len(device.truth)
        for payload in strange:
            client.send("dev/a", payload)
        # Names that no stream has, and one that is another topic's.
        for topic in ("dev/a b", "dev/a b/c", "dev/a//b"):
            client.send(topic, {"value": 1.0, "t": T0_NS, "n": 0})
        device.lose(len(strange))
        device.send_until_read()
        account = bridge.end()["in dev/a"]
        assert account["refused"] == len(strange) and account["skipped"]["refused"] == len(strange), account
        assert account["sent"] == before + 1 and account["updates"] == before + 1 + len(strange)
        assert len(bridge.of("refused")) == 1 and len(bridge.of("strange", peer="dev/a b")) == 1
        assert any("3 messages of topics" in it["text"] for it in bridge.of("strange")), bridge.of("strange")
        device.check(reader.end()["lab/a"][0])


def test_a_stream_without_topics_of_its_own_is_refused_and_the_others_go_out(broker: Mosquitto) -> None:
    bus = new_bus()
    with (
        Client(broker, "out/#") as client,
        bridge_to(broker, bus, "--publish=two/*=out/{stream}", "--publish=one/*=out/{channel}", "--out-rate=100") as bridge,
        tc.Publisher("two/a", {"u": "V", "v": "A"}, rate=1_000, bus=bus) as two,
        tc.Publisher("one/a", {"x+y": "V"}, rate=1_000, bus=bus) as strange,
        tc.Publisher("one/b", {"u": "V"}, rate=1_000, bus=bus) as one,
    ):
        bridge.wait_for("connected")
        two.send([[1.0, 2.0]])
        assert "several channels of two/a map to one topic" in bridge.wait_for("refused", stream="two/a")["text"]
        strange.send([1.0])
        assert "`out/x+y` is a pattern" in bridge.wait_for("refused", stream="one/a")["text"]
        one.send([7.0])
        until(lambda: client.heard)
        assert json.loads(client.heard[0].payload)["value"] == 7.0
        bridge.end()
