"""The words of quotas on a command line, and in users' tests: whom they are for, and limits. Pure.

--user ann --client-id app producer=1MB/s request=50%
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kbroker.near_names import did_you_mean
from kbroker.quotas.quota_entity import (
    CLIENT_ID,
    IP,
    USER,
    QuotaError,
    checked_entity,
    checked_value,
    keys_of,
)
from kbroker.quotas.quota_keys import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from kbroker.wording import named

KEYS: Mapping[str, str] = {
    "producer": PRODUCER_BYTE_RATE,
    "consumer": CONSUMER_BYTE_RATE,
    "request": REQUEST_PERCENTAGE,
    "mutations": CONTROLLER_MUTATION_RATE,
    "connections": CONNECTION_CREATION_RATE,
}
"""Kafka's names of quotas, by the short words for them."""
TYPES = (USER, CLIENT_ID, IP)
DEFAULT_NAME = "<default>"
Names = Mapping[str, str | None]
"""An entity: names by type, None is the default."""

_NUMBER = r"(\d+(?:\.\d*)?|\.\d+)"
_BYTES = re.compile(_NUMBER + r" ?(?:([kKMG]?)i?B)?(?:/s)?")
_PERCENT = re.compile(_NUMBER + "%?")
_PER_S = re.compile(_NUMBER + r"(?:/s)?")
_FORMS = {
    PRODUCER_BYTE_RATE: (_BYTES, "bytes in a second, such as 1048576 or 1MB/s"),
    CONSUMER_BYTE_RATE: (_BYTES, "bytes in a second, such as 1048576 or 1MB/s"),
    REQUEST_PERCENTAGE: (_PERCENT, "a percentage, such as 50%"),
    CONTROLLER_MUTATION_RATE: (_PER_S, "a number in a second, such as 10/s"),
    CONNECTION_CREATION_RATE: (_PER_S, "a number in a second, such as 10/s"),
}
_OPTION = re.compile(r"--(user|client-id|ip|default)(?:=(.*))?", re.DOTALL)


class QuotaWordError(ValueError):
    """A word that cannot be read; the text is a sentence."""


class QuotaWish(NamedTuple):
    """Limits by Kafka's names, and the entity that shall have them."""

    entity: Names
    values: Mapping[str, float]


def entity_words(entity: Names) -> str:
    """The entity for a sentence.

    >>> entity_words({"user": "ann", "client-id": None})
    'user ann, default client-id'
    """
    return ", ".join(
        f"default {kind}" if name is None else f"{kind} {name}" for kind, name in entity.items()
    )


def entity_of(
    given: Iterable[tuple[str, str]], defaults: Iterable[str] = ()
) -> dict[str, str | None]:
    """Return the entity of these types and names, and of the types whose default is meant. Raises
    QuotaWordError.
    """
    entity: dict[str, str | None] = {}
    for kind, name in (*given, *((kind, None) for kind in defaults)):
        if kind in entity:
            raise QuotaWordError(f"--{kind} is given twice")
        entity[kind] = name
    if not entity:
        raise QuotaWordError(
            "say whose quotas: give --user, --client-id or --ip, or --default for all others"
        )
    if IP in entity and len(entity) > 1:
        raise QuotaWordError("--ip goes with neither --user nor --client-id")
    if "" in entity.values():
        raise QuotaWordError("a name is empty: --default means all others")
    return {kind: entity[kind] for kind in TYPES if kind in entity}


def keys_in(words: Iterable[str], entity: Names) -> list[str]:
    """Return the quotas that are meant, by Kafka's names. Raises QuotaWordError."""
    return list(dict.fromkeys(_key(word, entity) for word in words))


def values_in(words: Iterable[str], entity: Names) -> dict[str, float]:
    """Return the limits of words such as `producer=1MB/s`. Raises QuotaWordError."""
    values: dict[str, float] = {}
    for word in words:
        short, separator, text = word.partition("=")
        if not separator or not short:
            raise QuotaWordError(f"'{word}' is not KEY=VALUE, such as producer=1MB/s")
        key = _key(short, entity)
        if key in values:
            raise QuotaWordError(f"{key} is given twice")
        values[key] = _value(key, text, entity)
    return values


def wish_in(line: str) -> QuotaWish:
    """Return what a line asks for. Raises QuotaWordError."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise QuotaWordError(f"{line!r} is not a quota: {error}") from error
    try:
        options, rest = _options(words)
        given = [each for each in options if each[0] != "default"]
        defaults = [_default(kind) for option, kind in options if option == "default"]
        entity = entity_of(given, defaults)
        values = values_in(rest, entity)
        if not values:
            raise QuotaWordError("no limit is given, such as producer=1MB/s")
    except QuotaWordError as error:
        raise QuotaWordError(f"{line!r} is not a quota: {error}") from error
    return QuotaWish(entity, values)


def _options(words: Sequence[str]) -> tuple[list[tuple[str, str]], list[str]]:
    options, rest = [], []
    coming = iter(words)
    for word in coming:
        found = _OPTION.fullmatch(word)
        if found is None and word.startswith("--"):
            raise QuotaWordError(f"no such option: {word}")
        if found is None:
            rest.append(word)
            continue
        value = found[2] if found[2] is not None else next(coming, None)
        if value is None:
            raise QuotaWordError(f"{word} needs a value")
        options.append((found[1], value))
    return options, rest


def _default(kind: str) -> str:
    if kind not in TYPES:
        raise QuotaWordError(f"--default {kind}: it is for {named(TYPES)}")
    return kind


def _key(word: str, entity: Names) -> str:
    known = keys_of(checked_entity(entity))
    key = KEYS.get(word, word)
    if key in known:
        return key
    fitting = [short for short, name in KEYS.items() if name in known]
    if key in KEYS.values():
        raise QuotaWordError(f"{entity_words(entity)} cannot have {key}: there is {named(fitting)}")
    hint = did_you_mean(word, [*fitting, *known]) or f" (there is {named(fitting)})"
    raise QuotaWordError(f"no such quota: {word}{hint}")


def _value(key: str, text: str, entity: Names) -> float:
    form, such_as = _FORMS[key]
    found = form.fullmatch(text.strip())
    if found is None:
        raise QuotaWordError(f"{key}={text}: give {such_as}")
    number = float(found[1])
    if form is _BYTES:
        number *= 1024 ** " KMG".index((found[2] or " ").upper())
    try:
        return checked_value(checked_entity(entity), key, number)
    except QuotaError as error:
        raise QuotaWordError(f"{key}={text}: give {such_as}") from error
