from __future__ import annotations

import pytest

from kbroker.protocol.declaration import Struct, Versions, field_specs, maker, wire
from kbroker.protocol.schema import Message, message


@message(key=None, versions="0-3", flexible="2+")
class Parcel(Message):
    class Stamp(Struct):
        value: int = wire("int32", default=7)

    class Item(Struct):
        name: str = wire("string", default="")
        stamp: Parcel.Stamp = wire("Stamp", default=...)

    sender: str | None = wire("string", nullable="1+", default=None)
    items: list[Parcel.Item] = wire("[]Item", "1+", default=[])
    stamp: Parcel.Stamp = wire("Stamp", "2+", tag=0, default=...)


@pytest.mark.parametrize(
    ("text", "versions"),
    [
        ("0-13", Versions(0, 13)),
        ("9+", Versions(9, 32767)),
        ("4", Versions(4, 4)),
        ("none", Versions(0, -1)),
    ],
)
def test_versions_are_read_and_printed_as_in_the_schemas(text: str, versions: Versions) -> None:
    assert Versions.parse(text) == versions
    assert str(versions) == text


def test_versions_that_are_no_range_are_refused() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        Versions.parse("some")


def test_range_contains_versions_and_ranges_within_it() -> None:
    versions = Versions.parse("3-5")

    assert [3 in versions, 5 in versions, 2 in versions, 6 in versions] == [
        True,
        True,
        False,
        False,
    ]
    assert versions.contains(Versions.parse("4-5"))
    assert versions.contains(4)
    assert versions.contains(Versions.parse("none"))
    assert not versions.contains(Versions.parse("4-6"))
    assert not Versions.parse("none")


def test_fields_not_given_have_the_declared_defaults() -> None:
    parcel = Parcel()

    assert (parcel.sender, parcel.items, parcel.stamp) == (None, [], Parcel.Stamp(value=7))


def test_lists_and_structs_are_made_afresh_for_each_object() -> None:
    first, second = Parcel(), Parcel()

    first.items.append(Parcel.Item(name="a"))
    first.stamp.value = 9

    assert (second.items, second.stamp.value) == ([], 7)
    assert (first.items, first.stamp.value) == ([Parcel.Item(name="a")], 9)


def test_struct_within_a_nested_struct_has_its_default_too() -> None:
    assert Parcel.Item().stamp == Parcel.Stamp()


def test_objects_are_equal_by_value_and_class() -> None:
    assert Parcel(sender="a") == Parcel(sender="a")
    assert Parcel(sender="a") != Parcel(sender="b")
    assert Parcel.Item() != Parcel.Stamp()


def test_objects_cannot_be_hashed_as_they_can_change() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(Parcel())


def test_repr_shows_every_field() -> None:
    assert repr(Parcel.Item(name="a")) == "Parcel.Item(name='a', stamp=Parcel.Stamp(value=7))"


def test_constructor_takes_declared_names_only_and_no_positions() -> None:
    with pytest.raises(TypeError):
        Parcel(receiver="b")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Parcel("a")  # type: ignore[call-arg]


def test_a_maker_makes_what_the_constructor_does() -> None:
    make = maker(Parcel, "items", "sender")

    assert make([Parcel.Item(name="a")], "b") == Parcel(sender="b", items=[Parcel.Item(name="a")])
    first, second = make([], None), make([], None)
    first.stamp.value = 9
    assert second.stamp.value == 7


def test_a_maker_takes_declared_names_only() -> None:
    with pytest.raises(ValueError, match="Parcel declares no receiver"):
        maker(Parcel, "sender", "receiver")


def test_specs_resolve_types_and_versions() -> None:
    sender, items, stamp = field_specs(Parcel)

    assert (sender.type_name, sender.is_array, sender.nullable) == (
        "string",
        False,
        Versions.parse("1+"),
    )
    assert (items.type_name, items.is_array, items.struct) == ("Item", True, Parcel.Item)
    assert (stamp.tag, stamp.versions) == (0, Versions.parse("2+"))


def test_type_that_is_neither_primitive_nor_nested_is_refused() -> None:
    @message(key=None, versions="0")
    class Letter(Message):
        text: str = wire("strnig", default="")

    with pytest.raises(ValueError, match="unknown type strnig"):
        list(field_specs(Letter))


def test_constructor_is_compiled_when_the_first_object_is_made() -> None:
    class Late(Struct):
        number: int = wire("int8", default=1)

    assert Late.__init__ is Struct.__init__

    assert Late(number=2).number == 2
    assert Late.__init__ is not Struct.__init__
