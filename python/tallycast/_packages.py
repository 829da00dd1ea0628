"""Packages that are only needed by who asks for what they do."""

from __future__ import annotations

import importlib
from typing import Any

from tallycast._errors import MissingPackage


def needed(package: str, extra: str) -> Any:
    """Imports a package; the error names the command that installs it."""
    try:
        return importlib.import_module(package)
    except ImportError as missing:
        name = package.partition(".")[0]
        if missing.name is not None and missing.name.partition(".")[0] != name:
            raise
        raise MissingPackage.of(name, extra) from None
