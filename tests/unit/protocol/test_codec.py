from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

import pytest

from kbroker.errors import ProtocolError
from kbroker.protocol.codec import decode, encode, encode_pieces, keep_encoded
from kbroker.protocol.messages.create_topics import CreateTopicsResponse
from kbroker.protocol.messages.fetch import FetchRequest, FetchResponse
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.protocol.primitives import MAX_ELEMENTS
from kbroker.protocol.schema import Message, Struct, message, wire

OLD, FLEXIBLE = 0, 1


@message(key=None, versions="0-1", flexible="1+")
class Everything(Message):
    """One field of each kind, in an old and in a flexible version."""

    class Inner(Struct):
        number: int = wire("int16", default=0)

    flag: bool = wire("bool", default=False)
    tiny: int = wire("int8", default=0)
    port: int = wire("uint16", default=0)
    size: int = wire("uint32", default=0)
    ratio: float = wire("float64", default=0.0)
    identity: UUID = wire("uuid", default=UUID(int=0))
    text: str = wire("string", default="")
    data: bytes = wire("bytes", default=b"")
    inner: Everything.Inner = wire("Inner", default=...)
    maybe: Everything.Inner | None = wire("Inner", nullable="0+", default=None)
    names: list[str] | None = wire("[]string", nullable="0+", default=None)
    identities: list[UUID] = wire("[]uuid", default=[])
    numbers: list[int] = wire("[]int16", default=[])
    inners: list[Everything.Inner] = wire("[]Inner", default=[])
    label: str = wire("string", "1+", tag=1, default="none")
    extra: Everything.Inner = wire("Inner", "1+", tag=3, default=...)


FULL = Everything(
    flag=True,
    tiny=-1,
    port=65535,
    size=2**32 - 1,
    ratio=0.5,
    identity=UUID(int=5),
    text="é",
    data=b"\x00\x01",
    inner=Everything.Inner(number=1),
    maybe=Everything.Inner(number=2),
    names=["a", ""],
    identities=[UUID(int=6)],
    numbers=[-1, 2],
    inners=[Everything.Inner(number=3)],
)
FIXED = "01 ff ffff ffffffff 3fe0000000000000 00000000000000000000000000000005"
FULL_OLD = (
    FIXED + "0002 c3a9  00000002 0001  0001  01 0002  00000002 0001 61 0000"
    "00000001 00000000000000000000000000000006  00000002 ffff 0002  00000001 0003"
)
FULL_FLEXIBLE = (
    FIXED + "03 c3a9  03 0001  0001 00  01 0002 00  03 02 61 01"
    "02 00000000000000000000000000000006  03 ffff 0002  02 0003 00  00"
)


def hex_bytes(text: str) -> bytes:
    return bytes.fromhex(text)


@pytest.mark.parametrize(("version", "encoded"), [(OLD, FULL_OLD), (FLEXIBLE, FULL_FLEXIBLE)])
def test_every_type_has_the_bytes_of_the_protocol_guide(version: int, encoded: str) -> None:
    data = hex_bytes(encoded)

    assert encode(FULL, version) == data
    assert decode(Everything, version, data) == (FULL, len(data))
    assert decode(Everything, version, memoryview(bytearray(data))) == (FULL, len(data))


def test_tagged_fields_are_written_when_they_differ_from_their_default() -> None:
    plain = encode(Everything(), FLEXIBLE)
    tagged = encode(Everything(label="x", extra=Everything.Inner(number=9)), FLEXIBLE)

    assert tagged == plain[:-1] + hex_bytes("02  01 02 0278  03 03 0009 00")
    assert encode(Everything(extra=Everything.Inner(), label="none"), FLEXIBLE) == plain


@message(key=None, versions="0", flexible="0+")
class NullableTags(Message):
    """Tagged fields that may be null, and are not by default."""

    class Inner(Struct):
        number: int = wire("int16", default=0)

    inner: NullableTags.Inner | None = wire("Inner", nullable="0+", default=..., tag=0)
    numbers: list[int] | None = wire("[]int16", nullable="0+", default=[], tag=1)


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (NullableTags(), "00"),
        (NullableTags(inner=NullableTags.Inner(), numbers=[]), "00"),
        (NullableTags(inner=None, numbers=None), "02  00 01 00  01 01 00"),
        (NullableTags(inner=NullableTags.Inner(number=9), numbers=[7]), "02  00 04 01 0009 00  01 03 02 0007"),
    ],
)  # fmt: skip
def test_a_tagged_null_is_written_as_kafka_does(value: NullableTags, data: str) -> None:
    assert encode(value, 0) == hex_bytes(data)
    assert decode(NullableTags, 0, hex_bytes(data)) == (value, len(hex_bytes(data)))


def test_tagged_fields_are_read_among_unknown_ones() -> None:
    data = encode(Everything(), FLEXIBLE)[:-1] + hex_bytes("04  00 01 ff  01 02 0278  02 00  09 00")

    assert decode(Everything, FLEXIBLE, data) == (Everything(label="x"), len(data))


@pytest.mark.parametrize(
    ("tags", "reason"),
    [
        ("01  01 03 0278 ff", "label: tagged field and its size disagree"),
        ("01  01 7f 0278", "tagged field of 127 bytes, 2 remain"),
        ("02  01 02 0278  01 02 0278", "tag 1 after tag 1"),
        ("02  03 03 0009 00  01 02 0278", "tag 1 after tag 3"),
        ("01  01 01 00", "label: null is not allowed here"),
        ("01", "ends before byte"),
    ],
)
def test_bad_tagged_fields_are_refused(tags: str, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        decode(Everything, FLEXIBLE, encode(Everything(), FLEXIBLE)[:-1] + hex_bytes(tags))


def tag_section(count: int) -> bytes:
    """`count` empty tagged fields with three-byte tags, as `count` with two bytes says."""
    tags = (bytes((n & 0x7F | 0x80, n >> 7 & 0x7F | 0x80, 1, 0)) for n in range(count))
    return bytes((count & 0x7F | 0x80, count >> 7)) + b"".join(tags)


def test_unknown_tagged_fields_are_bounded_in_number() -> None:
    body = encode(Everything(), FLEXIBLE)[:-1]

    assert decode(Everything, FLEXIBLE, body + tag_section(1000))[0] == Everything()
    with pytest.raises(ProtocolError, match="more than 1000 unknown tagged fields"):
        decode(Everything, FLEXIBLE, body + tag_section(1001))


def test_unknown_tagged_fields_of_plain_structs_are_bounded_too() -> None:
    body = encode(HeartbeatRequest(), 4)[:-1]

    assert decode(HeartbeatRequest, 4, body + tag_section(1000))[0] == HeartbeatRequest()
    with pytest.raises(ProtocolError, match="more than 1000 unknown tagged fields"):
        decode(HeartbeatRequest, 4, body + tag_section(1001))


@pytest.mark.parametrize(
    ("cls", "version", "body", "reason"),
    [
        (HeartbeatRequest, 0, "ffff 00000001 0000", "group_id: length -1"),
        (HeartbeatRequest, 4, "00 00000001 01 01 00 00", "group_id: null"),
        (HeartbeatRequest, 3, "0000 00000001 0000 fffe", "group_instance_id: length -2"),
        (HeartbeatRequest, 0, "0005 6162", "lacks|ends before"),
        (HeartbeatRequest, 0, "0000 00000001 0005 6162", "lacks 3 bytes"),
        (HeartbeatRequest, 4, "80808080808000", "varint longer than 5 bytes"),
        (HeartbeatRequest, 4, "ffffffff7f 61", "string of 34359738366 bytes"),
        (HeartbeatRequest, 0, "", "ends before byte 0"),
        (MetadataRequest, 0, "ffffffff", "topics: null is not allowed"),
        (MetadataRequest, 1, "7fffffff", "topics: 2147483647 elements in 0 bytes"),
        (MetadataRequest, 1, "00000002 0000 00", "topics: 2 elements in 3 bytes"),
        (MetadataRequest, 1, "00000001 fffb", "name: length -5"),
        (MetadataRequest, 9, "ffffffff0f 00", "topics: 4294967294 elements in 1 bytes"),
        (MetadataRequest, 99, "", "MetadataRequest has no version 99"),
        (MetadataRequest, -1, "", "MetadataRequest has no version -1"),
    ],
)
def test_bad_bytes_are_refused_with_a_reason(
    cls: type[Message], version: int, body: str, reason: str
) -> None:
    with pytest.raises(ProtocolError, match=reason):
        decode(cls, version, hex_bytes(body))


def test_negative_array_length_reads_as_null_where_null_is_allowed() -> None:
    assert decode(MetadataRequest, 1, hex_bytes("fffffffb"))[0].topics is None
    assert decode(MetadataRequest, 9, hex_bytes("00 01 00 00 00"))[0].topics is None


def test_elements_of_one_message_are_bounded_in_number() -> None:
    topics = MAX_ELEMENTS + 1
    body = topics.to_bytes(4, "big") + bytes(2 * topics)

    with pytest.raises(ProtocolError, match="or more than 1000000 in all"):
        decode(MetadataRequest, 0, body)


def test_partitions_of_one_produce_request_are_bounded_as_it_is_answered_at_once() -> None:
    partitions = ProduceRequest.max_elements

    def body(topics: int, count: int) -> bytes:
        return (
            bytes(6)
            + topics.to_bytes(4, "big")
            + (b"\x00\x01t" + count.to_bytes(4, "big") + bytes(8 * count)) * topics
        )

    assert decode(ProduceRequest, 0, body(1, partitions - 1))[0].topic_data
    for topics, count in ((1, partitions), (partitions // 64 + 1, 64)):
        with pytest.raises(ProtocolError, match=f"or more than {partitions} in all"):
            decode(ProduceRequest, 0, body(topics, count))


def test_text_that_is_not_unicode_is_replaced_on_either_side() -> None:
    body = hex_bytes("0002 41ff 00000001 0000")

    assert decode(HeartbeatRequest, 0, body)[0].group_id == "A\N{REPLACEMENT CHARACTER}"
    assert encode(HeartbeatRequest(group_id="A\ud800"), 0).startswith(b"\x00\x02A?")


def test_bytes_after_the_message_are_left_alone() -> None:
    body = encode(HeartbeatRequest(group_id="g"), 4)

    assert decode(HeartbeatRequest, 4, body + b"\x01\x00\x00") == (
        HeartbeatRequest(group_id="g"),
        len(body),
    )


def test_fields_that_a_version_lacks_are_left_out_and_keep_their_default() -> None:
    request = HeartbeatRequest(group_id="g", group_instance_id="i")

    assert decode(HeartbeatRequest, 2, encode(request, 2))[0] == HeartbeatRequest(group_id="g")
    assert decode(FetchRequest, 0, encode(FetchRequest(rack_id="r"), 0))[0].rack_id == ""


def test_version_that_is_not_declared_cannot_be_encoded() -> None:
    with pytest.raises(ValueError, match="HeartbeatRequest has no version 5"):
        encode(HeartbeatRequest(), 5)


def produce_request(records: memoryview | None) -> ProduceRequest:
    partition = ProduceRequest.PartitionProduceData(index=1, records=records)
    topic = ProduceRequest.TopicProduceData(name="t", partition_data=[partition])
    return ProduceRequest(acks=-1, topic_data=[topic])


@pytest.mark.parametrize("version", [3, 9])
def test_records_are_views_of_the_frame(version: int) -> None:
    frame = bytearray(encode(produce_request(memoryview(b"batch")), version))

    records = (
        decode(ProduceRequest, version, memoryview(frame))[0]
        .topic_data[0]
        .partition_data[0]
        .records
    )

    assert isinstance(records, memoryview)
    records[:2] = b"BA"
    assert b"BAtch" in frame


@pytest.mark.parametrize("version", [3, 9])
@pytest.mark.parametrize("records", [None, memoryview(b""), memoryview(b"batch")])
def test_records_may_be_null_or_empty(version: int, records: memoryview | None) -> None:
    request = produce_request(records)

    assert decode(ProduceRequest, version, encode(request, version))[0] == request


@dataclass
class Slice:
    """Stands for bytes of an open file."""

    content: bytes
    position: int = 0

    def __len__(self) -> int:
        return len(self.content)

    def fileno(self) -> int:
        return -1

    def read(self) -> bytes:
        return self.content


def fetch_response(records: Slice | None) -> FetchResponse:
    partitions = [FetchResponse.PartitionData(partition_index=n, records=records) for n in (0, 1)]
    topic = FetchResponse.FetchableTopicResponse(topic="t", partitions=partitions)
    return FetchResponse(responses=[topic])


@pytest.mark.parametrize(
    ("version", "kinds"),
    [(4, [bytes, Slice, bytes, Slice]), (12, [bytes, Slice, bytes, Slice, bytes])],
)
def test_records_stay_pieces_of_their_own(version: int, kinds: list[type]) -> None:
    records = Slice(b"batch")

    pieces = encode_pieces(fetch_response(records), version, head=b"head")

    assert [type(piece) for piece in pieces] == kinds
    assert pieces[1] is records
    assert bytes(pieces[0][:4]) == b"head"  # type: ignore[index]


def test_message_of_file_slices_can_be_joined() -> None:
    body = encode(fetch_response(Slice(b"batch")), 4)

    partitions = decode(FetchResponse, 4, body)[0].responses[0].partitions

    assert [bytes(partition.records or b"") for partition in partitions] == [b"batch", b"batch"]  # type: ignore[arg-type]


def test_message_without_records_is_one_piece() -> None:
    assert encode_pieces(HeartbeatRequest(), 0, head=b"head") == [
        b"head" + encode(HeartbeatRequest(), 0)
    ]


@message(key=None, versions="0-1", flexible="1+")
class Nested(Message):
    """A struct with an array in an array."""

    class Group(Struct):
        name: str = wire("string", default="")
        numbers: list[int] = wire("[]int32", default=[])

    groups: list[Nested.Group] = wire("[]Group", default=[])


@pytest.mark.parametrize("version", [OLD, FLEXIBLE])
def test_an_element_that_was_written_beforehand_has_the_same_bytes(version: int) -> None:
    def groups() -> list[Nested.Group]:
        return [Nested.Group(name="a", numbers=[1, 2]), Nested.Group(name="b")]

    kept = groups()
    keep_encoded(kept[0], version)

    assert encode(Nested(groups=kept), version) == encode(Nested(groups=groups()), version)
    assert kept == groups()
    kept[0].name = "changed"  # which the law forbids, but shows whose bytes are taken
    assert encode(Nested(groups=kept), version) == encode(Nested(groups=groups()), version)


def test_an_element_that_was_written_for_one_version_is_written_anew_for_another() -> None:
    group = Nested.Group(name="a", numbers=[1])
    fresh = Nested.Group(name="a", numbers=[1])
    keep_encoded(group, OLD)
    keep_encoded(group, OLD)

    assert encode(Nested(groups=[group]), FLEXIBLE) == encode(Nested(groups=[fresh]), FLEXIBLE)
    keep_encoded(group, FLEXIBLE)
    assert encode(Nested(groups=[group]), OLD) == encode(Nested(groups=[fresh]), OLD)


def test_an_element_is_not_written_for_a_version_that_its_message_lacks() -> None:
    with pytest.raises(ValueError, match="Nested has no version 2"):
        keep_encoded(Nested.Group(), 2)


@pytest.mark.parametrize("field", ["text", "label"])
def test_a_compact_string_is_no_longer_than_an_old_one(field: str) -> None:
    """Whatever is read from a client can be written into a record."""
    longest, longer = Everything(**{field: "x" * 32_767}), Everything(**{field: "x" * 32_768})

    assert decode(Everything, FLEXIBLE, encode(longest, FLEXIBLE))[0] == longest
    with pytest.raises(ProtocolError, match="string of 32768 bytes, 32767 are allowed"):
        decode(Everything, FLEXIBLE, encode(longer, FLEXIBLE))


@pytest.mark.parametrize("version", [2, 5])
@pytest.mark.parametrize(
    ("text", "told"),
    [("x" * 32_767, "x" * 32_767), ("x" * 32_768, "x" * 32_767), ("xé" * 20_000, "xé" * 10_922 + "x")],
    ids=["as long as may be", "longer", "cut amid a character"],
)  # fmt: skip
def test_the_text_of_an_error_ends_where_a_string_must(version: int, text: str, told: str) -> None:
    topic = CreateTopicsResponse.CreatableTopicResult(name="t", error_message=text)
    data = encode(CreateTopicsResponse(topics=[topic]), version)

    (read,) = decode(CreateTopicsResponse, version, data)[0].topics

    assert read.error_message == told
