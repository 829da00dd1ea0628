"""Excerpts as objects and files of other libraries, one file for each.

In common: rows are stored samples only, so that no hole is bridged and none is filled; the gap map is
attached wherever a library has a place for it. A converter knows the excerpt; the excerpt knows the converter's name.
"""

import importlib
from typing import Any


def convert(converter: str, *arguments: object) -> Any:
    """Calls a converter, named by its module here and its function: ``to_numpy.structured``."""
    module, _, function = converter.partition(".")
    return getattr(importlib.import_module(f"{__name__}.{module}"), function)(*arguments)
