"""All messages that are declared: those of kbroker, and those that only tests read."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

from kbroker.protocol import messages
from kbroker.protocol.schema import Message

_FOLDERS = {
    messages.__name__: messages.__path__,
    "tests.golden.wire.unserved_messages": [str(Path(__file__).with_name("unserved_messages"))],
}


def all_messages() -> list[type[Message]]:
    """Import every file; returns request and response classes by key, request first."""
    found: list[tuple[int, bool, type[Message]]] = []
    for package, folder in _FOLDERS.items():
        for file in pkgutil.iter_modules(folder):
            for value in vars(importlib.import_module(f"{package}.{file.name}")).values():
                if isinstance(value, type) and issubclass(value, Message) and value is not Message:
                    key = value.spec.key
                    if key is not None:
                        found.append((key, not value.__name__.endswith("Request"), value))
    return [cls for _, _, cls in sorted(found, key=lambda entry: entry[:2])]
