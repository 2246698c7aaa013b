"""How a setting is declared: a typed attribute of a `@config_group` class, set to `define(...)`.

    @config_group
    class LogConfig(ConfigGroup):
        log_segment_bytes: int = define(1_073_741_824, "Roll at this size.", at_least=14)

The attribute is Kafka's name with dots turned to underscores; types, bounds and defaults are those
of Kafka 3.9, and `support` says whether a setting is acted on. A group is a frozen, slotted value
with keyword arguments, like a dataclass, but made without generated source: some 400 settings are
declared at every start. Reading, DescribeConfigs and the reference page use the same `ConfigKey`s
(`LogConfig.keys`).
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, ClassVar, Literal, TypedDict, TypeVar, Unpack, cast, dataclass_transform

from kbroker.config.config_values import ConfigType, ConfigValue, invalid_value, parse_text

Importance = Literal["high", "medium", "low"]
UpdateMode = Literal["read-only", "per-broker", "cluster-wide"]
# "used": kbroker acts on it. "accepted": nothing here depends on it. "not yet": Kafka acts on it,
# kbroker does not.
Support = Literal["used", "accepted", "not yet"]
Check = Callable[[str, Any], None]  # (name, value); raises ConfigError

# Types of Kafka that Python does not tell apart, for annotations.
Long = int
Short = int
JavaClass = str
Password = str

_ANNOTATED_TYPES = {
    "bool": ConfigType.BOOLEAN,
    "int": ConfigType.INT,
    "Long": ConfigType.LONG,
    "Short": ConfigType.SHORT,
    "float": ConfigType.DOUBLE,
    "str": ConfigType.STRING,
    "JavaClass": ConfigType.CLASS,
    "Password": ConfigType.PASSWORD,
    "tuple[str, ...]": ConfigType.LIST,
}


class Facts(TypedDict, total=False):
    """All that may be declared of a setting besides its name, type, default and doc."""

    at_least: float | None
    at_most: float | None
    one_of: tuple[str, ...]
    list_of: tuple[str, ...]  # allowed elements of a list
    check: Check | None
    importance: Importance
    dynamic: UpdateMode
    synonyms: tuple[str, ...]  # settings it falls back to, itself included, first one wins
    support: Support
    internal: bool  # hidden in DescribeConfigs


class ConfigKey:
    """One setting: its name, type, default, bounds and all else that is declared of it."""

    __slots__ = (*Facts.__annotations__, "attribute", "default", "doc", "name", "type")

    def __init__(
        self, name: str, config_type: ConfigType, default: ConfigValue, doc: str, facts: Facts
    ) -> None:
        self.name = name
        self.attribute = name.replace(".", "_")
        self.type = config_type
        self.default = default
        self.doc = doc
        self.at_least = facts.get("at_least")
        self.at_most = facts.get("at_most")
        self.one_of = facts.get("one_of", ())
        self.list_of = facts.get("list_of", ())
        self.check = facts.get("check")
        self.importance: Importance = facts.get("importance", "medium")
        self.dynamic: UpdateMode = facts.get("dynamic", "read-only")
        self.synonyms = facts.get("synonyms", ())
        self.support: Support = facts.get("support", "used")
        self.internal = facts.get("internal", False)

    def __repr__(self) -> str:
        return f"ConfigKey({self.name}, {self.type.name}, default {self.default!r})"

    @property
    def sensitive(self) -> bool:
        """True for passwords: their value is never shown."""
        return self.type is ConfigType.PASSWORD

    def named(self, name: str) -> ConfigKey:
        """The same declaration under the name of a setting that overrides this one."""
        other = copy(self)
        other.name = name
        other.synonyms = (name, *(self.synonyms or (self.name,)))
        return other

    def parse(self, text: str) -> ConfigValue:
        """The checked value of `text`; raises ConfigError with name, value and bound."""
        value = parse_text(self.name, self.type, text)
        self.validate(value)
        return value

    def validate(self, value: ConfigValue) -> None:
        """Raises ConfigError when the value is outside its bounds."""
        if isinstance(value, (int, float)):
            self._validate_range(value)
        if self.one_of and value not in self.one_of:
            raise invalid_value(
                self.name, value, f"String must be one of: {', '.join(self.one_of)}"
            )
        if self.list_of and isinstance(value, tuple):
            for element in value:
                if element not in self.list_of:
                    raise invalid_value(
                        self.name, element, f"String must be one of: {', '.join(self.list_of)}"
                    )
        if self.check is not None:
            self.check(self.name, value)

    def _validate_range(self, value: float) -> None:
        if self.at_least is not None and value < self.at_least:
            raise invalid_value(self.name, value, f"Value must be at least {self.at_least}")
        if self.at_most is not None and value > self.at_most:
            raise invalid_value(self.name, value, f"Value must be no more than {self.at_most}")


def define(default: ConfigValue, doc: str, **facts: Unpack[Facts]) -> Any:
    """Declare the setting that the annotated attribute holds."""
    return default, doc, facts


class ConfigGroup:
    """A frozen set of settings; subclasses are made with `@config_group`."""

    __slots__ = ()
    keys: ClassVar[tuple[ConfigKey, ...]] = ()

    def __init__(self, **values: Any) -> None:
        for key in self.keys:
            object.__setattr__(self, key.attribute, values.pop(key.attribute, key.default))
        if values:
            raise TypeError(f"{type(self).__name__} has no {', '.join(values)}")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen, cannot set {name}")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(tuple(self._values().values()))

    def __repr__(self) -> str:
        shown = (
            f"{key.name}={getattr(self, key.attribute)}" for key in self.keys if not key.sensitive
        )
        return f"{type(self).__name__}({', '.join(shown)})"

    def _values(self) -> dict[str, ConfigValue]:
        return {key.attribute: getattr(self, key.attribute) for key in self.keys}


GroupT = TypeVar("GroupT", bound=ConfigGroup)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(define,))
def config_group(cls: type[GroupT]) -> type[GroupT]:
    """Turn the declared settings of a class into slots and `keys`.

    Facts that all of them share stand in `common`. The class is created again, as slots need.
    """
    namespace = dict(cls.__dict__)
    common = namespace.pop("common", {})
    keys = []
    for attribute, annotation in cls.__annotations__.items():
        default, doc, facts = namespace.pop(attribute)
        config_type = _ANNOTATED_TYPES[annotation.removesuffix(" | None")]
        name = attribute.replace("_", ".")
        keys.append(ConfigKey(name, config_type, default, doc, common | facts))
    namespace.pop("__dict__", None)
    namespace.pop("__weakref__", None)
    namespace["__slots__"] = tuple(key.attribute for key in keys)
    namespace["keys"] = tuple(keys)
    return cast("type[GroupT]", type(cls.__name__, cls.__bases__, namespace))


def replace(group: GroupT, **changes: ConfigValue) -> GroupT:
    return type(group)(**{**group._values(), **changes})
