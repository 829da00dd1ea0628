"""Publish and subscribe to streams of measurement data, and read where every sample went."""

from tallycast._core import VERSION as __version__

__all__ = ["__version__"]
