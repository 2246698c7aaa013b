"""Declarations of Kafka's messages, one file per API: request and response, with notes on what each
version changed.

Nothing enumerates the files, and importing this package imports none of them: whoever serves or
sends an API imports its file.
"""

from __future__ import annotations

import importlib
import pkgutil

from kbroker.protocol.schema import Message


def all_messages() -> list[type[Message]]:
    """Import every file of this package; returns request and response classes by key, request
    first.
    """
    found: list[tuple[int, bool, type[Message]]] = []
    for module_info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{module_info.name}")
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Message) and value is not Message:
                key = value.spec.key
                if key is not None:
                    found.append((key, not value.__name__.endswith("Request"), value))
    return [cls for _, _, cls in sorted(found, key=lambda entry: entry[:2])]
