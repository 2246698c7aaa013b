"""One record of a format 2 batch: lengths, deltas and headers, all as zigzag varints (KIP-98).

    record  = varint length, int8 attributes, varlong timestamp delta, varint offset delta,
              varint key length (-1: null), key, varint value length (-1: null), value,
              varint header count, headers
    header  = varint key length, key (UTF-8), varint value length (-1: null), value

Law: any bytes decode to a record or to KafkaError(INVALID_RECORD); a claimed length is never
trusted, because the bytes come from clients.
"""

from __future__ import annotations

from typing import Final, NamedTuple, NoReturn

from kbroker.errors import ErrorCode, KafkaError

Bytes = bytes | bytearray | memoryview
Headers = tuple[tuple[str, bytes | None], ...]


_MASKS: Final = {5: 2**32 - 1, 10: 2**64 - 1}  # by the largest size of a varint, in bytes


class Record(NamedTuple):
    """A record with its absolute offset.

    Bytes that are no UTF-8 in a header key survive as surrogates.
    """

    offset: int
    timestamp: int  # Unix ms, -1 when there is none
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def invalid(reason: str) -> NoReturn:
    """Refuse the records: INVALID_RECORD with a reason."""
    raise KafkaError(ErrorCode.INVALID_RECORD, reason)


def read_varint(buffer: Bytes, position: int, max_bytes: int = 5) -> tuple[int, int]:
    """A zigzag varint of 32 bits, or of 64 if it may have 10 bytes, and the position after it. As
    in Kafka, further bits are dropped. IndexError at the end of the buffer.
    """
    byte = buffer[position]
    position += 1
    value = byte & 0x7F
    shift = 7
    limit = max_bytes * 7
    while byte > 0x7F:
        if shift >= limit:
            invalid(f"varint longer than {max_bytes} bytes")
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
    if shift >= limit:
        value &= _MASKS[max_bytes]
    return (value >> 1) ^ -(value & 1), position


def write_varint(out: bytearray, value: int) -> None:
    """Append a zigzag varint; the same bytes for varint and varlong."""
    value = value << 1 if value >= 0 else (-value << 1) - 1
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def read_record(
    payload: Bytes, position: int, base_offset: int, base_timestamp: int
) -> tuple[Record, int]:
    """The record at `position` of a batch's uncompressed records, and the position after it."""
    try:
        length, start = read_varint(payload, position)
        end = start + length
        if length < 0 or end > len(payload):
            invalid(f"record of {length} bytes, {len(payload) - start} left")
        timestamp_delta, at = read_varint(payload, start + 1, 10)
        offset_delta, at = read_varint(payload, at)
        key, at = _read_bytes(payload, at, end)
        value, at = _read_bytes(payload, at, end)
        headers, at = read_headers(payload, at, end)
    except IndexError:
        invalid("record cut short")
    if at != end:
        invalid(f"record says {length} bytes and holds {at - start}")
    timestamp = base_timestamp + timestamp_delta
    return Record(base_offset + offset_delta, timestamp, key, value, headers), end


def skim_record(payload: Bytes, position: int) -> tuple[int, int, bool, int]:
    """(timestamp delta, offset delta, has a key, position after it): checked, not copied."""
    try:
        length, start = read_varint(payload, position)
        end = start + length
        if length < 0 or end > len(payload):
            invalid(f"record of {length} bytes, {len(payload) - start} left")
        timestamp_delta, at = read_varint(payload, start + 1, 10)
        offset_delta, at = read_varint(payload, at)
        key_length, at = read_varint(payload, at)
        if key_length > 0:
            at += key_length
        value_length, at = read_varint(payload, at)
        if value_length > 0:
            at += value_length
        at = skim_headers(payload, at)
    except IndexError:
        invalid("record cut short")
    if at != end:
        invalid(f"record says {length} bytes and holds {at - start}")
    return timestamp_delta, offset_delta, key_length >= 0, end


def skim_headers(payload: Bytes, position: int) -> int:
    """The position after the headers whose count is at `position`. IndexError past the end."""
    count, position = read_varint(payload, position)
    if not 0 <= count <= len(payload) - position:
        invalid(f"{count} headers, {len(payload) - position} bytes left")
    for _ in range(count):
        length, position = read_varint(payload, position)
        if length < 0:
            invalid("header without key")
        length, position = read_varint(payload, position + length)
        if length > 0:
            position += length
    return position


def write_record(out: bytearray, record: Record, base_offset: int, base_timestamp: int) -> None:
    """Append one record to a batch's uncompressed records."""
    body = bytearray(1)
    write_varint(body, record.timestamp - base_timestamp)
    write_varint(body, record.offset - base_offset)
    _write_bytes(body, record.key)
    _write_bytes(body, record.value)
    write_headers(body, record.headers)
    write_varint(out, len(body))
    out += body


def in_64_bits(number: int) -> int:
    """A sum or a difference as Java has it, which wraps around."""
    return (number + 2**63) % 2**64 - 2**63


def varint_bytes(value: int) -> bytes:
    """A value as `write_varint` writes it, by itself."""
    out = bytearray()
    write_varint(out, value)
    return bytes(out)


def write_headers(out: bytearray, headers: Headers) -> None:
    """Append the headers of a record with their count."""
    write_varint(out, len(headers))
    for key, value in headers:
        _write_bytes(out, key.encode("utf-8", "surrogateescape"))
        _write_bytes(out, value)


def _read_bytes(payload: Bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = read_varint(payload, position)
    if length < 0:
        return None, position
    stop = position + length
    if stop > end:
        invalid(f"field of {length} bytes, {end - position} left in its record")
    return bytes(payload[position:stop]), stop


def read_headers(payload: Bytes, position: int, end: int) -> tuple[Headers, int]:
    """The headers whose count is at `position` of a record that ends at `end`, and the position
    after them. IndexError at the end of the buffer.
    """
    count, position = read_varint(payload, position)
    if not count:
        return (), position
    if not 0 <= count <= end - position:
        invalid(f"{count} headers, {end - position} bytes left in their record")
    headers = []
    for _ in range(count):
        key, position = _read_bytes(payload, position, end)
        if key is None:
            invalid("header without key")
        value, position = _read_bytes(payload, position, end)
        headers.append((key.decode("utf-8", "surrogateescape"), value))
    return tuple(headers), position


def _write_bytes(out: bytearray, value: bytes | None) -> None:
    if value is None:
        out.append(1)  # zigzag of -1
        return
    write_varint(out, len(value))
    out += value
