"""Settings of one listener, `listener.name.<listener>.<setting>`, and of one SASL mechanism of it,
`listener.name.<listener>.<mechanism>.<setting>`: typed and bounded as the setting they stand for.

Law: a name means what it means to Kafka 3.9. The listener stands there in lower case, and so does
the mechanism; what is set for a listener that is not there, or for no setting that is known, is not
read, as a plugin may have its own. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kbroker.config.config_def import ConfigKey
from kbroker.config.config_values import ConfigValue
from kbroker.near_names import near_names

PREFIX = "listener.name."
_FAMILIES = ("ssl.", "sasl.")
# The other settings that a listener of Kafka reads for itself.
_SINGLE = frozenset(
    {
        "connections.max.reauth.ms",
        "max.connection.creation.rate",
        "max.connections",
        "num.network.threads",
        "principal.builder.class",
    }
)

Keys = Mapping[str, ConfigKey]


class Override(NamedTuple):
    """A setting of one listener: `mechanism` is None if it holds for all of them, and `key` goes by
    the whole name.
    """

    listener: str
    mechanism: str | None
    base: str
    key: ConfigKey


def listener_prefix(listener: str, mechanism: str | None = None) -> str:
    """The beginning of the name of a setting for this listener, or for this mechanism of it.

    >>> listener_prefix("INSIDE", "SCRAM-SHA-256")
    'listener.name.inside.scram-sha-256.'
    """
    inner = "" if mechanism is None else f"{mechanism.lower()}."
    return f"{PREFIX}{listener.lower()}.{inner}"


def listener_names(listeners: str) -> list[str]:
    """Names of the listeners in the text of `listeners`, in upper case, also of a wrong text.

    >>> listener_names("INSIDE://:9092, outside://:9093")
    ['INSIDE', 'OUTSIDE']
    """
    named = (part.partition("://")[0].strip() for part in listeners.upper().split(","))
    return [name for name in named if name]


def override(name: str, listeners: Iterable[str], keys: Keys) -> Override | None:
    """The setting that `name` gives one of the listeners; None if it is for none of them, or for a
    setting that is not among `keys`.
    """
    if not name.startswith(PREFIX):
        return None
    for listener in listeners:
        rest = name.removeprefix(listener_prefix(listener))
        if rest == name:
            continue
        if rest in keys:
            return Override(listener, None, rest, keys[rest].named(name))
        mechanism, _, base = rest.partition(".")
        if base in keys:
            return Override(listener, mechanism.upper(), base, keys[base].named(name))
    return None


def overridden(name: str, keys: Keys) -> ConfigKey | None:
    """The declaration that `name` goes by, no matter whether its listener is there; None if it is
    for no setting among `keys`.
    """
    rest = name.removeprefix(PREFIX)
    while rest != name and (rest := rest.partition(".")[2]):
        if rest in keys:
            return keys[rest].named(name)
    return None


def parse_overrides(
    texts: Mapping[str, str], listeners: str, keys: Keys
) -> Mapping[str, ConfigValue]:
    """The values of all that is set for the listeners in the text of `listeners`, by whole name.
    Raises ConfigError with that name.
    """
    names = [name for name in texts if name.startswith(PREFIX)]
    if not names:
        return {}
    served = listener_names(listeners)
    found = ((name, override(name, served, keys)) for name in names)
    return {name: each.key.parse(texts[name]) for name, each in found if each is not None}


def without_effect(name: str, listeners: str, keys: Keys, foreign: Iterable[str]) -> str | None:
    """The warning about a name that begins with `listener.name.`; None if it is acted on. `foreign`
    are settings of other versions of Kafka.
    """
    served = listener_names(listeners)
    found = override(name, served, keys)
    if found is not None:
        if found.base in _SINGLE or found.base.startswith(_FAMILIES):
            is_used = found.key.support == "used"
            return None if is_used else f"{name} is set but has no effect yet"
        return f"{name} is set but has no effect: {found.base} is the same for all listeners"
    for listener in served:
        prefix = listener_prefix(listener)
        if name.startswith(prefix):
            return _of_unknown_setting(name, prefix, keys, foreign)
        if name.lower().startswith(prefix):
            right = f"{prefix}{name[len(prefix) :]}"
            return f"{name} is set but has no effect: listeners are in lower case here, {right}"
    listener = name.removeprefix(PREFIX).partition(".")[0]
    return f"{name} is set but has no effect: listeners has no {listener.upper()}"


def _of_unknown_setting(name: str, prefix: str, keys: Keys, foreign: Iterable[str]) -> str:
    rest = name.removeprefix(prefix)
    inner, _, base = rest.partition(".")
    if {rest, base} & set(foreign):
        return f"{name} is set but has no effect: it is a setting of Kafka 4"
    own = [key for key in keys if key in _SINGLE or key.startswith(_FAMILIES)]
    near = near_names(rest, [*own, *(f"{inner}.{key}" for key in own)], shown=1)
    if near:
        return f"unknown setting {name}, did you mean {prefix}{near[0]}?"
    return f"{name} is set but has no effect yet"  # a plugin may read it
