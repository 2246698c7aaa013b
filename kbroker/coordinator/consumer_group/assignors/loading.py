"""Assignors by the names in `group.consumer.assignors`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kbroker.config.config_values import invalid_value
from kbroker.coordinator.consumer_group.assignors.assignor import Assignor
from kbroker.coordinator.consumer_group.assignors.own_assignor import OwnAssignor
from kbroker.coordinator.consumer_group.assignors.range import RangeAssignor
from kbroker.coordinator.consumer_group.assignors.uniform import UniformAssignor
from kbroker.errors import ConfigError
from kbroker.java_hash import hash_map_order, java_hash
from kbroker.python_names import loaded

SETTING: Final = "group.consumer.assignors"
_PACKAGE: Final = "org.apache.kafka.coordinator.group.assignor"
_BUILT_IN: Final[dict[str, type[UniformAssignor | RangeAssignor]]] = {
    UniformAssignor.name: UniformAssignor,
    RangeAssignor.name: RangeAssignor,
    f"{_PACKAGE}.UniformAssignor": UniformAssignor,
    f"{_PACKAGE}.RangeAssignor": RangeAssignor,
}


class Assignors:
    """The assignors that members may ask for."""

    def __init__(self, assignors: Iterable[Assignor]) -> None:
        """Raises ConfigError if there is none, or if two have one name."""
        self._by_name: dict[str, Assignor] = {}
        for assignor in assignors:
            if assignor.name in self._by_name:
                raise ConfigError(f"{SETTING} has two assignors with the name {assignor.name}")
            self._by_name[assignor.name] = assignor
        if not self._by_name:
            raise ConfigError(f"{SETTING} names no assignor")

    @property
    def default(self) -> Assignor:
        """The first: for groups whose members ask for none."""
        return next(iter(self._by_name.values()))

    def get(self, name: str) -> Assignor | None:
        """The assignor that clients call so."""
        return self._by_name.get(name)

    @property
    def names(self) -> str:
        """All of them for a sentence, in Kafka's order."""
        return ", ".join(hash_map_order(self._by_name, 16, java_hash))


def assignors_named(names: Iterable[str]) -> Assignors:
    """Kafka's own by their short names or those of their classes; others are called, without
    arguments, as `module:name` says. Raises ConfigError.
    """
    return Assignors(map(_named, names))


def _named(name: str) -> Assignor:
    if name in _BUILT_IN:
        return _BUILT_IN[name]()
    if "." not in name and ":" not in name:
        raise invalid_value(SETTING, name, "it is none of uniform, range, and module:name")
    make = loaded(SETTING, name)
    try:
        made = make()
        called = made.name
    except BaseException as error:  # whatever it raises, `sys.exit` too
        raise invalid_value(SETTING, name, f"it cannot be made: {error!r}") from error
    if not isinstance(called, str) or not called:
        raise invalid_value(SETTING, name, f"its name is {called!r}, and not a text")
    if not callable(getattr(made, "assign", None)):
        raise invalid_value(SETTING, name, "what it makes has no method assign")
    return OwnAssignor(called, made, name)
