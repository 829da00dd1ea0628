"""The connection to a broker: its events go into an inbox, and sinks publish to it. paho-mqtt implements the protocol."""

from __future__ import annotations

import json
import math
import ssl
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Union

import numpy as np

import tallycast as tc

from ._run import Inbox, needed
from ._thinner import Thinned

#: Messages of QoS 1 and 2 that may wait for their acknowledgement; then outputs are folded into later ones.
MAX_UNACKNOWLEDGED = 100
#: Of MQTT's reasons to refuse a connection those that stay the same when we try again.
FINAL = frozenset(
    {"Unsupported protocol version", "Client identifier not valid", "Bad user name or password", "Not authorized"}
)
#: Maximum time for the last messages: a broker on a busy machine may pause for seconds. Units: seconds.
LAST_WORDS = 5.0


@dataclass(frozen=True)
class Server:
    """Address of the broker, and identity of this client."""

    host: str
    port: int
    tls: bool
    ca: str | None
    user: str | None
    password: str | None
    client_id: str | None
    status: str | None


@dataclass(frozen=True)
class Message:
    """A message of a topic that is followed."""

    topic: str
    payload: bytes
    retained: bool
    arrived_ns: int


@dataclass(frozen=True)
class Connected:
    """The broker is there."""

    #: It has kept our session and what came for it.
    kept: bool


@dataclass(frozen=True)
class Lost:
    """The broker is not there."""

    why: str


@dataclass(frozen=True)
class Refused:
    """The broker will not have us, or we not the broker: to try again is of no use."""

    why: str


@dataclass(frozen=True)
class Answer:
    """The broker's answer to a subscription."""

    refused: tuple[str, ...]


@dataclass(frozen=True)
class Strange:
    """A message whose topic is no text."""


MqttEvent = Union[Message, Connected, Lost, Refused, Answer, Strange]


class MqttClient:
    """A client that reconnects automatically."""

    def __init__(self, server: Server, topics: Sequence[tuple[str, int]]) -> None:
        paho = needed("paho.mqtt.client", "mqtt")
        enums = needed("paho.mqtt.enums", "mqtt")
        self.inbox: Inbox[MqttEvent] = Inbox()
        self.name = f"{server.host}:{server.port}"
        self._server = server
        self._topics = topics
        #: Messages printed since the broker was last connected: every failed attempt has the same reason.
        self._said: set[type[MqttEvent]] = set()
        self._was_there = False
        self._waiting: dict[int, MqttSink | None] = {}
        self._early: set[int] = set()
        self._lock = threading.Lock()
        keeps = server.client_id is not None
        self._client = paho.Client(
            enums.CallbackAPIVersion.VERSION2, client_id=server.client_id or "", clean_session=not keeps
        )
        self._client.on_connect = self._on_connect
        self._client.on_connect_fail = self._on_connect_fail
        self._client.on_disconnect = self._on_disconnect
        self._client.on_message = self._on_message
        self._client.on_subscribe = self._on_subscribe
        self._client.on_publish = self._on_publish
        self._client.reconnect_delay_set(1, 30)
        if server.user is not None:
            self._client.username_pw_set(server.user, server.password)
        if server.tls:
            self._set_tls(server.ca)
        if server.status is not None:
            self._client.will_set(server.status, "offline", qos=1, retain=True)

    def _set_tls(self, ca: str | None) -> None:
        try:
            self._client.tls_set(ca_certs=ca)
        except OSError as error:
            raise tc.ConfigError(
                f"cannot read certificates from {ca}: {error}\nname a PEM file with --ca, or omit it if the system trusts the broker"
            ) from error

    def start(self) -> None:
        """Connects, now or as soon as the broker is there."""
        self._client.connect_async(self._server.host, self._server.port, keepalive=20)
        self._client.loop_start()

    @property
    def is_free(self) -> bool:
        """True if a message can be sent now."""
        return bool(self._client.is_connected()) and len(self._waiting) < MAX_UNACKNOWLEDGED

    def publish(self, sink: MqttSink, topic: str, payload: bytes, qos: int, retain: bool) -> None:
        """Sends a message; the sink is notified of its acknowledgement."""
        self._send(sink, topic, payload, qos, retain)

    def _send(self, sink: MqttSink | None, topic: str, payload: bytes, qos: int, retain: bool) -> None:
        info = self._client.publish(topic, payload, qos=qos, retain=retain)
        with self._lock:
            if info.mid in self._early:
                # The acknowledgement was faster than we.
                self._early.discard(info.mid)
                _acknowledged(sink)
            else:
                self._waiting[info.mid] = sink

    def drain(self) -> None:
        """Waits for the last acknowledgements, not for long."""
        deadline = time.monotonic() + LAST_WORDS
        while self._is_owed() and self._client.is_connected() and time.monotonic() < deadline:
            time.sleep(0.01)

    def _is_owed(self) -> bool:
        # Under the lock, so that what is not waited for any more has been counted.
        with self._lock:
            return bool(self._waiting)

    def close(self) -> None:
        """Disconnects in order."""
        if self._server.status is not None and self._client.is_connected():
            # The broker does not announce the end of a client that disconnects in order.
            self._send(None, self._server.status, b"offline", 1, True)
            self.drain()
        self._client.disconnect()
        self._client.loop_stop()

    def _on_connect(self, client: Any, data: Any, flags: Any, reason: Any, properties: Any) -> None:
        if reason.is_failure:
            why = f"the broker {self.name} refuses us: {reason}"
            if str(reason) in FINAL:
                self._refused(f"{why}\ncheck the user in --server, the password in MQTT_PASSWORD, and --client-id")
            else:
                self._tell(Lost(f"{why}: trying again"))
            return
        self._said.clear()
        self._was_there = True
        self.inbox.put(0, Connected(bool(flags.session_present)))
        if self._server.status is not None:
            self._send(None, self._server.status, b"online", 1, True)
        if self._topics:
            client.subscribe(list(self._topics))

    def _on_connect_fail(self, client: Any, data: Any) -> None:
        error = sys.exc_info()[1]
        if isinstance(error, ssl.SSLCertVerificationError):
            self._refused(
                f"the certificate of the broker {self.name} is not trusted: {error.verify_message}\nname the certificate of its issuer with --ca"
            )
        else:
            self._tell(Lost(f"cannot reach the broker: {error}: trying again"))

    def _on_disconnect(self, client: Any, data: Any, flags: Any, reason: Any, properties: Any) -> None:
        if reason.is_failure:
            self._tell(Lost(f"the connection to the broker broke: {reason}"))

    def _refused(self, why: str) -> None:
        # A client accepted before may be accepted again: the broker may be under maintenance.
        self._tell(Lost(f"{why}\ntrying again, since it worked before") if self._was_there else Refused(why), Refused)

    def _tell(self, event: MqttEvent, kind: type[MqttEvent] = Lost) -> None:
        if kind not in self._said:
            self._said.add(kind)
            self.inbox.put(0, event)

    def _on_message(self, client: Any, data: Any, message: Any) -> None:
        try:
            topic = str(message.topic)
        except UnicodeDecodeError:
            # paho ends its thread with the exception of a callback.
            self.inbox.put(0, Strange())
            return
        self.inbox.put(hash(topic), Message(topic, bytes(message.payload), bool(message.retain), time.time_ns()))

    def _on_subscribe(self, client: Any, data: Any, mid: int, reasons: Any, properties: Any) -> None:
        refused = tuple(topic for (topic, _), reason in zip(self._topics, reasons) if reason.is_failure)
        self.inbox.put(0, Answer(refused))

    def _on_publish(self, client: Any, data: Any, mid: int, reason: Any, properties: Any) -> None:
        with self._lock:
            if mid in self._waiting:
                _acknowledged(self._waiting.pop(mid))
            else:
                self._early.add(mid)


def _acknowledged(sink: MqttSink | None) -> None:
    if sink is not None:
        sink.acknowledged += 1


class MqttSink:
    """A topic as the sink of a route."""

    def __init__(
        self, client: MqttClient, topic: str, stream: str, channel: str, payload: str, qos: int, retain: bool
    ) -> None:
        self.name = topic
        self._client = client
        self._stream = stream
        self._channel = channel
        self._is_raw = payload == "raw"
        self._qos = qos
        self._retain = retain
        self.published = 0
        #: By the broker (QoS 1, 2) or by the operating system (QoS 0).
        self.acknowledged = 0

    def ready(self) -> bool:
        """Returns whether the broker is connected and keeps up."""
        return self._client.is_free

    def put(self, output: Thinned, unit: str, why: str) -> None:
        """Publishes an output."""
        if self._is_raw:
            if output.value is None:
                return
            payload = np.ascontiguousarray(output.value).astype(output.value.dtype.newbyteorder("<")).tobytes()
        else:
            payload = json.dumps(
                {
                    "stream": self._stream,
                    "channel": self._channel,
                    "unit": unit,
                    "t_ns": output.t_ns,
                    "value": None if output.value is None else json_value(output.value),
                    "samples": output.samples,
                    "missing": output.missing,
                    **({"why": why} if why else {}),
                },
                allow_nan=False,
            ).encode()
        self.published += 1
        self._client.publish(self, self.name, payload, self._qos, self._retain)

    def gone(self, why: str) -> None:
        """Sends the end of the stream, if the payload is text."""
        if not self._is_raw and self.published and self._client.is_free:
            ended = json.dumps({"stream": self._stream, "channel": self._channel, "value": None, "ended": why}).encode()
            self.published += 1
            self._client.publish(self, self.name, ended, self._qos, self._retain)

    def account(self) -> dict[str, Any]:
        """Returns how many messages left, and how many of them were acknowledged."""
        return {"published": self.published, "acknowledged": self.acknowledged}


def json_value(value: Any) -> Any:
    """Returns a value as JSON has it: complex numbers as pairs, null for what is no finite number."""
    value = value.tolist() if isinstance(value, np.ndarray) else value
    if isinstance(value, list):
        return [json_value(it) for it in value]
    if isinstance(value, complex):
        return [json_value(value.real), json_value(value.imag)]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
