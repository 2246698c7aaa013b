"""Values of a start's settings that stand elsewhere (KIP-297, KIP-421): `${file:/path:key}`,
`${directory:/path:file}` and `${env:NAME}`, by the providers that `config.providers` names.

Law: a variable that stands for nothing ends the start. Apache Kafka goes on with the variable's own
text, which may then be a password. No error has a value. Dynamic settings are never resolved: who
may alter settings could read any file of this machine (CVE-2025-27817).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import PurePath
from typing import NamedTuple

from kbroker.config.foreign_settings import PROVIDERS
from kbroker.config.kafka_config import key_among
from kbroker.config.properties_file import parse_properties
from kbroker.errors import ConfigError
from kbroker.near_names import did_you_mean
from kbroker.small_files import read_small_file

_PACKAGE = "org.apache.kafka.common.config.provider."
# ${provider:path:key}, or without a path: Kafka's own pattern.
_VARIABLE = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")
_MOST_BYTES = 1024 * 1024

Look = Callable[[str, str], str]
"""(path, key): the value. Raises ConfigError."""


class _Known(NamedTuple):
    name: str  # that people give it
    make: Callable[[Mapping[str, str], Mapping[str, str]], Look]
    """(its params, the environment)"""


def resolved(values: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """The settings with the values that their variables stand for. Raises ConfigError."""
    found = dict(values)
    providers = _providers(values, environment)
    for name, text in values.items():
        if "${" in text and not name.startswith(PROVIDERS):
            found[name] = _VARIABLE.sub(partial(_value, providers, name), text)
            _check_value(name, text, found)
    return found


def _providers(values: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, Look]:
    found = {}
    for provider in filter(None, map(str.strip, values.get(PROVIDERS, "").split(","))):
        prefix = f"{PROVIDERS}.{provider}."
        class_name = values.get(f"{prefix}class", "").strip()
        if not class_name:
            raise ConfigError(f"{PROVIDERS} has {provider}, and {prefix}class is not set")
        known = _CLASSES.get(class_name)
        if known is None:
            raise ConfigError(
                f"{prefix}class={class_name}: kbroker has {', '.join(_CLASSES)}"
                f"{did_you_mean(class_name, _CLASSES, shown=1)}"
            )
        params = {
            name.removeprefix(f"{prefix}param."): text
            for name, text in values.items()
            if name.startswith(f"{prefix}param.")
        }
        try:
            found[provider] = known.make(params, environment)
        except ConfigError as error:
            raise ConfigError(f"{prefix}param.{error}") from error
    return found


def _value(providers: Mapping[str, Look], name: str, match: re.Match[str]) -> str:
    provider, path, key = match[1], match[2] or "", match[3]
    look = providers.get(provider)
    if look is not None:
        try:
            return look(path, key)
        except ConfigError as error:
            raise ConfigError(f"{name}: {match[0]} stands for nothing: {error}") from error
    for class_name, known in _CLASSES.items():
        if known.name == provider:
            raise ConfigError(
                f"{name}: {match[0]} needs {PROVIDERS}={provider} and "
                f"{PROVIDERS}.{provider}.class={class_name}"
            )
    return match[0]  # text of another kind, as in Kafka


def _check_value(name: str, text: str, values: Mapping[str, str]) -> None:
    """Raises ConfigError with the variable in place of a value that cannot be used."""
    key = key_among(name, values)
    if key is None:
        return
    try:
        key.parse(values[name])
    except ConfigError as error:
        _, found, reason = str(error).partition(f" for configuration {name}: ")
        is_told = bool(found) and values[name].strip() not in reason
        why = f": {reason}" if is_told else " cannot be used"
        raise ConfigError(f"{name}: the value of {text}{why}") from None


def _files(params: Mapping[str, str], _environment: Mapping[str, str]) -> Look:
    allowed = _allowed_paths(params)

    def look(path: str, key: str) -> str:
        settings = parse_properties(_content(_let_in(path, allowed)))
        if key not in settings:
            raise ConfigError(f"{path} has no {key}{did_you_mean(key, settings, shown=1)}")
        return settings[key]

    return look


def _directories(params: Mapping[str, str], _environment: Mapping[str, str]) -> Look:
    allowed = _allowed_paths(params)

    def look(path: str, key: str) -> str:
        if not key or PurePath(key).name != key:
            raise ConfigError(f"'{key}' is not the name of a file in {path}")
        _let_in(path, allowed)  # without a path the key alone would be read
        return _content(_let_in(os.path.join(path, key), allowed))

    return look


def _variables(params: Mapping[str, str], environment: Mapping[str, str]) -> Look:
    allowlist = params.get("allowlist.pattern")
    try:
        pattern = re.compile(allowlist) if allowlist is not None else None
    except re.error as error:
        raise ConfigError(f"allowlist.pattern is not a regular expression: {error}") from error

    def look(path: str, key: str) -> str:
        if path:
            raise ConfigError("a variable of the environment has no path")
        if pattern is not None and not pattern.fullmatch(key):
            raise ConfigError(f"allowlist.pattern does not let {key} in")
        if key not in environment:
            raise ConfigError(f"{key} is not set")
        return environment[key]

    return look


_CLASSES = {
    f"{_PACKAGE}FileConfigProvider": _Known("file", _files),
    f"{_PACKAGE}DirectoryConfigProvider": _Known("directory", _directories),
    f"{_PACKAGE}EnvVarConfigProvider": _Known("env", _variables),
}


def _allowed_paths(params: Mapping[str, str]) -> tuple[PurePath, ...] | None:
    text = params.get("allowed.paths", "").strip()
    if not text:
        return None
    paths = [part.strip() for part in text.split(",")]
    for path in paths:
        if not os.path.isabs(path):
            raise ConfigError(f"allowed.paths has {path}, which is not absolute")
        if not os.path.exists(path):
            raise ConfigError(f"allowed.paths has {path}, which is not there")
    return tuple(PurePath(os.path.realpath(path)) for path in paths)


def _let_in(path: str, allowed: tuple[PurePath, ...] | None) -> str:
    if not path:
        raise ConfigError("it has no path")
    if allowed is None:
        return path
    # Kafka looks at the text alone, and a link in an allowed directory leads it anywhere.
    found = PurePath(os.path.realpath(path))
    if not os.path.isabs(path) or not any(found.is_relative_to(each) for each in allowed):
        raise ConfigError(f"allowed.paths does not let {path} in")
    return str(found)


def _content(path: str) -> str:
    try:
        if not os.path.isfile(path):
            reason = "it is a directory" if os.path.isdir(path) else "there is no such file"
            raise ConfigError(f"{path} cannot be read: {reason}")
        return read_small_file(path, _MOST_BYTES).decode()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8") from None  # which would have the bytes
