"""Open objects of this process: closed in order when Python ends, and unusable in a forked child, with a clear error."""

from __future__ import annotations

import atexit
import os
import weakref
from typing import Protocol

from tallycast import _core


class _Closable(Protocol):
    def close(self) -> object: ...


_open: weakref.WeakSet[_Closable] = weakref.WeakSet()


def opened(it: _Closable) -> None:
    """Registers an object to be closed at the end."""
    _open.add(it)


def closed(it: _Closable) -> None:
    """Forgets what was closed."""
    _open.discard(it)


@atexit.register
def _close_all() -> None:
    # A publisher that is not closed sends no final tally: its readers would not know the end of the stream.
    for it in list(_open):
        it.close()


def _in_child() -> None:
    _core.forked()
    _open.clear()


os.register_at_fork(after_in_child=_in_child)
