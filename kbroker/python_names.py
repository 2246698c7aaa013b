"""Code of users that a broker runs: a setting names it in Python, as `module:name`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from kbroker.errors import ConfigError


def loaded(setting: str, text: str) -> Callable[..., Any]:
    """Import what `text` names. Raises ConfigError if there is nothing of that name to call, or if
    it is the name of a class of Java.
    """
    module_name, colon, name = text.partition(":")
    refused = f"Invalid value {text} for configuration {setting}"
    if not colon:
        raise ConfigError(
            f"{refused}: Java classes are not served: name a Python function as module:name"
        )
    try:
        found = getattr(import_module(module_name), name, None)
    except Exception as error:  # whatever a module of a user raises
        raise ConfigError(f"{refused}: {module_name} cannot be imported: {error}") from error
    if not callable(found):
        raise ConfigError(f"{refused}: {module_name} has no {name} to call")
    return found  # type: ignore[no-any-return]
