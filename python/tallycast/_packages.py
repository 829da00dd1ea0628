"""Packages that are only needed by who asks for what they do."""

from __future__ import annotations

import importlib
from typing import Any

from tallycast._errors import MissingPackage


def needed(package: str, extra: str, distribution: str | None = None) -> Any:
    """Imports a package; the error names the command that installs it.

    ``distribution`` is its name where packages are installed from, if that is another.
    """
    try:
        return importlib.import_module(package)
    except ImportError as missing:
        name = package.partition(".")[0]
        if missing.name is not None and missing.name.partition(".")[0] != name:
            raise
        raise MissingPackage.of(distribution or name, extra) from None
