"""How the structs inside messages are declared: version ranges, fields, and the plain classes that
hold them.

A declared class costs microseconds at import: its constructor and codecs are compiled when they are
first used.
Law: a declaration is data: nothing here reads or writes bytes; `codec.py` does, from what is
declared here. So the documentation and the tests can read declarations too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple, TypeVar, dataclass_transform

MAX_VERSION = 0x7FFF  # versions are int16 on the wire


class Versions(NamedTuple):
    """A range of message versions, both ends inclusive; empty when `lowest` is above `highest`.

    >>> Versions.parse("3+").contains(7), 2 in Versions.parse("0-1"), str(Versions.parse("3-5"))
    (True, False, '3-5')
    """

    lowest: int
    highest: int

    @classmethod
    def parse(cls, text: str) -> Versions:
        """Read "0-13", "9+", "4" or "none". Raises ValueError for anything else."""
        if text == "none":
            return cls(0, -1)
        if text.endswith("+"):
            return cls(int(text[:-1]), MAX_VERSION)
        lowest, dash, highest = text.partition("-")
        return cls(int(lowest), int(highest if dash else lowest))

    def contains(self, other: int | Versions) -> bool:
        """True when the version, or every version of the other range, is within this range."""
        if isinstance(other, int):
            return self.lowest <= other <= self.highest
        return not other or (self.lowest <= other.lowest and other.highest <= self.highest)

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.lowest <= version <= self.highest

    def __bool__(self) -> bool:
        return self.lowest <= self.highest

    def __str__(self) -> str:
        if not self:
            return "none"
        if self.highest == MAX_VERSION:
            return f"{self.lowest}+"
        return f"{self.lowest}-{self.highest}" if self.lowest < self.highest else str(self.lowest)


class DeclaredField:
    """One `wire(...)` as written; a `FieldSpec` once its message's first codec is built."""

    __slots__ = ("default", "name", "nullable", "tag", "type_name", "varies", "versions")

    def __init__(
        self,
        type_name: str,
        versions: str,
        nullable: str,
        tag: int | None,
        default: Any,
        varies: bool,
    ) -> None:
        self.name = ""
        self.type_name = type_name
        self.versions = versions
        self.nullable = nullable
        self.tag = tag
        self.default = default
        self.varies = varies


def wire(
    type_name: str,
    versions: str = "0+",
    *,
    default: Any,
    nullable: str = "none",
    tag: int | None = None,
    varies: bool = False,
) -> Any:
    """Declare a field of a struct or message.

        acks: int = wire("int16", default=0)
        topics: list[CreateTopicsRequest.CreatableTopic] = wire("[]CreatableTopic", default=[])

    `type_name` is the schema's: bool, int8, int16, uint16, int32, uint32, int64, float64, uuid,
    string, bytes, records, the name of a struct nested in the same message, or "[]" before any of
    them. `versions` and `nullable` are ranges as in the schemas. With `tag` the field is a tagged
    one in all of `versions`. `default=[]` is a fresh list for each message; `default=...` is the
    struct with its own defaults; any other default is the value itself. A number or records that
    `varies` is another one in each request of a client that repeats the rest: see `template.py`.
    """
    return DeclaredField(type_name, versions, nullable, tag, default, varies)


class FieldSpec(NamedTuple):
    """A declared field, resolved: what codecs are generated from."""

    name: str
    type_name: str  # without "[]"; for a struct its class name
    is_array: bool
    struct: type[Struct] | None
    versions: Versions
    nullable: Versions
    tag: int | None
    default: Any  # [] for arrays, ... for structs, else the value
    varies: bool = False


class FreshDefault:
    """Non-data descriptor: makes an unset list or struct at first access; the object keeps it."""

    __slots__ = ("name", "type_name")

    def __init__(self, declared: DeclaredField) -> None:
        self.name = declared.name
        self.type_name = declared.type_name if declared.default is ... else ""

    def __get__(self, instance: Struct | None, owner: type[Struct]) -> Any:
        if instance is None:
            return self
        value: Any = getattr(owner.message_class, self.type_name)() if self.type_name else []
        setattr(instance, self.name, value)
        return value


_UNSET = ...  # default of constructor parameters whose default has to be made fresh


@dataclass_transform(kw_only_default=True, field_specifiers=(wire,))
class Struct:
    """Base of declared classes: keyword-only constructor, mutable, equality and repr by value."""

    declared_fields: ClassVar[tuple[DeclaredField, ...]] = ()
    message_class: ClassVar[Any] = (
        None  # the message this struct is nested in; the message itself for a message
    )
    # By version, where `codec.keep_encoded` has written this object beforehand.
    encoded: ClassVar[Mapping[int, bytes] | None] = None

    def __init_subclass__(cls) -> None:
        declared = []
        for name, value in list(vars(cls).items()):
            if type(value) is DeclaredField:
                value.name = name
                declared.append(value)
                is_fresh = value.default is ... or type(value.default) is list
                setattr(cls, name, FreshDefault(value) if is_fresh else value.default)
            elif isinstance(value, type) and issubclass(value, Struct):
                value.message_class = cls
        cls.declared_fields = tuple(declared)
        cls.message_class = cls

    def __init__(self, **values: Any) -> None:
        cls = type(self)
        cls.__init__ = _compile_constructor(cls)  # type: ignore[method-assign]
        cls.__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, f.name) == getattr(other, f.name) for f in self.declared_fields)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        values = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in self.declared_fields)
        return f"{type(self).__qualname__}({values})"


StructT = TypeVar("StructT", bound=Struct)


def _compile_constructor(cls: type[Struct]) -> Any:
    """An `__init__` with a keyword per field; lists and structs not given stay unmade."""
    names = [field.name for field in cls.declared_fields]
    defaults: dict[str, Any] = {}
    body = []
    for field in cls.declared_fields:
        is_fresh = isinstance(vars(cls)[field.name], FreshDefault)
        defaults[field.name] = _UNSET if is_fresh else field.default
        guard = f"if {field.name} is not _UNSET: " if is_fresh else ""
        body.append(f" {guard}self.{field.name} = {field.name}")
    parameters = (
        ", *, " + ", ".join(f"{name}=_defaults[{name!r}]" for name in names) if names else ""
    )
    namespace: dict[str, Any] = {"_defaults": defaults, "_UNSET": _UNSET}
    source = f"def __init__(self{parameters}):\n" + "\n".join(body or [" pass"])
    exec(source, namespace)  # noqa: S102 - source made from declarations only
    return namespace["__init__"]


def copied(struct: StructT) -> StructT:
    """A copy with lists and structs of its own; all other values are shared."""
    copy = object.__new__(type(struct))
    own = vars(copy)
    for name, value in vars(struct).items():
        if isinstance(value, Struct):
            value = copied(value)
        elif isinstance(value, list):
            value = [copied(each) if isinstance(each, Struct) else each for each in value]
        own[name] = value
    return copy


def maker(cls: type[StructT], *names: str) -> Callable[..., StructT]:
    """A function that makes a struct from the values of these fields, in this order; the others
    have their defaults. For who makes one per request: it takes a third of the constructor's time.

    Raises ValueError for a name that the class does not declare.
    """
    unknown = set(names) - {field.name for field in cls.declared_fields}
    if unknown:
        raise ValueError(f"{cls.__qualname__} declares no {', '.join(sorted(unknown))}")
    namespace: dict[str, Any] = {"new": object.__new__, "cls": cls}
    body = "".join(f" made.{name} = {name}\n" for name in names)
    source = f"def make({', '.join(names)}):\n made = new(cls)\n{body} return made\n"
    exec(source, namespace)  # noqa: S102 - source made from declarations only
    made: Callable[..., StructT] = namespace["make"]
    return made


_PRIMITIVES = frozenset(
    "bool int8 int16 uint16 int32 uint32 int64 float64 uuid string bytes records".split()  # noqa: SIM905 - reads better
)


def field_specs(cls: type[Struct]) -> Iterator[FieldSpec]:
    """The fields of a declared class in wire order.

    Raises ValueError for a type that is neither primitive nor nested.
    """
    for declared in cls.declared_fields:
        is_array = declared.type_name.startswith("[]")
        type_name = declared.type_name.removeprefix("[]")
        struct = None
        if type_name not in _PRIMITIVES:
            struct = getattr(cls.message_class, type_name, None)
            if struct is None:
                raise ValueError(f"{cls.__qualname__}.{declared.name}: unknown type {type_name}")
        yield FieldSpec(
            declared.name,
            type_name,
            is_array,
            struct,
            Versions.parse(declared.versions),
            Versions.parse(declared.nullable),
            declared.tag,
            declared.default,
            declared.varies,
        )
