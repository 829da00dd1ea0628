"""Publishing a stream."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy.typing as npt

from tallycast import _core, _open_handles
from tallycast._errors import ConfigError, of_arguments
from tallycast._schema import Channels, Rate, declared, rate_text


class Publisher(_core.Publisher):
    """A stream being published: hand over arrays, forget about the network.

    ``channels`` are names with units, or with :class:`Channel` for shape, scale and offset; without any there is one, called
    ``value``. ``dtype`` is one of the protocol's or NumPy's; of a structured one the fields are the channels. ``rate`` is
    samples per second. With ``own_times`` each sample has the time that is given for it.

    ``on_full`` selects the treatment of samples when the queue is full: ``"overwrite"`` drops the oldest unsent ones,
    which the account counts as ``publisher_queue``; ``"block"`` waits, for ``patience`` seconds if that is given; ``"error"``
    raises :class:`Full`. Small blocks wait up to ``linger`` seconds to be sent together. ``loss`` withholds datagrams with that
    probability, to test readers. ``bus`` is an address such as ``"udp://239.84.0.0:7400?iface=eth1"`` or ``"shm://name"``;
    the default is the environment variable ``TALLYCAST_BUS``, then the default bus.

    With ``proof`` the station signs statements about the samples, so that ``tallycast query --verify`` can prove a recording later;
    it needs a bus with ``keys=FILE``.

    A publisher may be used by several threads. In a forked child it raises :class:`ForkError`.

    >>> with Publisher("doc/probe", {"current": "A", "voltage": "V"}, "f4", rate=100_000, bus="shm://doc") as pub:
    ...     pub.send([[0.1, 2.0], [0.2, 2.1]])  # two samples of two channels
    ...     pub.next_index
    2
    """

    def __new__(
        cls,
        name: str,
        channels: Channels = None,
        dtype: npt.DTypeLike = "f8",
        rate: Rate | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        own_times: bool = False,
        on_full: str = "overwrite",
        patience: float | None = None,
        linger: float = 0.005,
        to: Iterable[str] = (),
        loss: float = 0.0,
        queue_bytes: int | None = None,
        clock: str = "system",
        on_demand: bool = False,
        proof: bool = False,
        bus: str | None = None,
        station: str | None = None,
    ) -> Publisher:
        """Opens the stream: its epoch begins."""
        if rate is None:
            raise ConfigError("a stream needs a sample rate\nset one, such as rate=1_000 for 1,000 samples per second")
        with of_arguments():
            dtype_name, made, own_labels = declared(channels, dtype)
            self = super().__new__(
                cls,
                name,
                dtype_name,
                rate_text(rate),
                [(c.name, c.unit, list(c.shape), c.scale, c.offset) for c in made],
                labels=list({**(labels or {}), **own_labels}.items()),
                own_times=own_times,
                on_full=on_full,
                patience=patience,
                linger=linger,
                to=list(to),
                loss=loss,
                queue_bytes=queue_bytes,
                clock=clock,
                on_demand=on_demand,
                proof=proof,
                bus=bus,
                station=station,
            )
        _open_handles.opened(self)
        return self

    def totals(self) -> dict[str, Any]:
        """Returns the totals so far; at most a tenth of a second old.

        ``samples``: offered = numbered + source + publisher_queue + publisher_paused + queued. ``datagrams``: those that did
        not leave, by stage, and the bytes of those that did. Both are of the current epoch; ``earlier`` has the sums of the
        ended epochs, including those that ended because times went back, and their number
        (``epochs``). ``reports``: those of this epoch's readers that were ``taken``; those not taken, because of another
        stream or epoch (``foreign``), of too many readers at one address (``too_many``), or in the name of a reader that
        reports from elsewhere (``borrowed``); and readers that were forgotten for others (``displaced``). ``statements``: signed statements of a publisher with
        ``proof`` that were ``taken`` for the network, and those left out because the path's datagrams are too small
        (``too_large``) or too many waited (``displaced``).
        """
        totals: dict[str, Any] = json.loads(self._totals())
        return totals

    def readers(self) -> list[dict[str, Any]]:
        """Returns the readers outside this host's shared memory that report, with their last report."""
        readers: list[dict[str, Any]] = json.loads(self._readers())
        return readers

    def begin_anew(self) -> dict[str, Any]:
        """Ends the epoch like :meth:`close` and begins another, counted from 0; returns the totals of the one that ended.

        For a device that restarts, or whose clock was set back: within an epoch times never go back.
        """
        totals: dict[str, Any] = json.loads(self._begin_anew())
        return totals

    def close(self) -> dict[str, Any]:
        """Ends the epoch: sends what is queued, then the final tally; returns the totals, once."""
        text = self._close()
        _open_handles.closed(self)
        totals: dict[str, Any] = {} if text is None else json.loads(text)
        return totals

    def __enter__(self) -> Publisher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Publisher of {self.name}: {len(self.schema.channels)} channels of {self.schema.dtype} at {self.schema.rate}/s>"
