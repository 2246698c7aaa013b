"""Compressed batches of every kind that a client may send: whole, odd and broken. What Apache Kafka
makes of them is in `payloads.tsv`, see `payloads`.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator

import cramjam

from kbroker.record.codecs.lz4_checksum import xxh32_short
from kbroker.record.compression import GZIP, LZ4, SNAPPY, ZSTD
from tests.golden.payload_frames import (
    LARGE,
    LZ4_END,
    SKIPPABLE,
    SMALL,
    XERIAL,
    ZSTD_MAGIC,
    as_be,
    as_le,
    batch_of,
    gzip_member,
    gzip_of_input,
    lz4_block,
    lz4_header,
    lz4_of,
    lz4_of_library,
    lz4_stored,
    message_of,
    snappy_block,
    snappy_raw,
    zstd_ending_at,
    zstd_frame,
    zstd_raw_block,
)


def lz4_cases() -> Iterator[tuple[str, bytes]]:
    """LZ4 frames."""
    whole = lz4_of(SMALL)
    yield "one block", whole
    yield "several blocks", lz4_of(LARGE)
    yield (
        "blocks of 256 KiB",
        lz4_header(0x60, 0x50) + lz4_block(LARGE[:200_000]) + lz4_block(LARGE[200_000:]) + LZ4_END,
    )
    yield "blocks of 1 MiB", lz4_header(0x60, 0x60) + lz4_block(LARGE) + LZ4_END
    yield "blocks of 4 MiB", lz4_header(0x60, 0x70) + lz4_block(LARGE) + LZ4_END
    yield "a block of more than it may hold", lz4_header() + lz4_block(LARGE) + LZ4_END
    yield "a stored block of more than it may hold", lz4_header() + lz4_stored(LARGE) + LZ4_END
    yield "a stored block", lz4_header() + lz4_stored(SMALL) + LZ4_END
    yield (
        "blocks of any size",
        lz4_header()
        + lz4_block(SMALL[:5])
        + lz4_stored(SMALL[5:9])
        + lz4_block(SMALL[9:])
        + LZ4_END,
    )
    yield (
        "an empty block in a value",
        (lz4_header() + lz4_block(SMALL[:20]) + as_le(1) + b"\0" + lz4_block(SMALL[20:]) + LZ4_END),
    )
    yield (
        "an empty block at the end",
        (lz4_header() + lz4_block(SMALL) + as_le(1) + b"\0" + LZ4_END),
    )
    yield (
        "garbage behind an empty block",
        lz4_header() + lz4_block(SMALL) + as_le(1) + b"\0" + b"garbage",
    )
    yield (
        "a block behind an empty one",
        lz4_header() + lz4_block(SMALL) + as_le(1) + b"\0" + lz4_block(SMALL) + LZ4_END,
    )
    yield "an empty block", lz4_header() + as_le(1) + b"\0" + lz4_block(SMALL) + LZ4_END
    yield (
        "a stored block of nothing, then another",
        (lz4_header() + lz4_stored(b"") + lz4_block(SMALL) + LZ4_END),
    )
    yield (
        "a stored block of nothing as the end",
        (lz4_header() + lz4_block(SMALL) + lz4_stored(b"")),
    )
    yield "linked blocks of the library", lz4_of_library(LARGE, block_linked=True)
    yield "the linked flag alone", lz4_of(SMALL, lz4_header(0x40))


def lz4_header_cases() -> Iterator[tuple[str, bytes]]:
    """LZ4 frames with other headers."""
    whole = lz4_of(SMALL)
    for name, flags, sizes in (
        ("block size 3", 0x60, 0x30),
        ("block size 0", 0x60, 0),
        ("a reserved bit of the sizes", 0x60, 0x41),
        ("the top bit of the sizes", 0x60, 0xC0),
        ("the reserved bit of the flags", 0x62, 0x40),
        ("version 0", 0x20, 0x40),
        ("version 2", 0xA0, 0x40),
    ):
        yield name, lz4_of(SMALL, lz4_header(flags, sizes))
    yield "a dictionary id", lz4_of(SMALL, lz4_header(0x61, 0x40, bytes(4)))
    yield "the flag of a dictionary id alone", lz4_of(SMALL, lz4_header(0x61, 0x40))
    size = len(SMALL).to_bytes(8, "little")
    yield "the content size", lz4_of(SMALL, lz4_header(0x68, 0x40, size))
    yield "a wrong content size", lz4_of(SMALL, lz4_header(0x68, 0x40, bytes(8)))
    yield "a content size cut short", lz4_header(0x68, 0x40, size)[:10]
    yield "a wrong header checksum", whole[:6] + bytes((whole[6] ^ 1,)) + whole[7:]
    yield (
        "the checksum of format 0",
        whole[:6] + bytes((xxh32_short(whole[:6]) >> 8 & 0xFF,)) + whole[7:],
    )


def lz4_end_cases() -> Iterator[tuple[str, bytes]]:
    """LZ4 frames with checksums and other ends."""
    whole = lz4_of(SMALL)
    checked = lz4_of_library(SMALL, content_checksum=True)
    content = lz4_of(LARGE, lz4_header(0x64)) + lz4_of_library(LARGE, content_checksum=True)[-4:]
    yield "a content checksum", content
    yield "a wrong content checksum", content[:-4] + b"\1\2\3\4"
    yield "no content checksum behind its flag", content[:-4]
    yield "a content checksum cut short", content[:-2]
    yield "block checksums", checked
    yield "wrong block checksums", checked[: -4 - 4 - 4] + b"\1\2\3\4" + checked[-8:]
    yield "no block checksum behind its flag", checked[: -4 - 4 - 4]
    yield "no end mark", whole[:-4]
    yield "an end mark cut short", whole[:-2]
    yield "bytes after the end mark", whole + b"garbage"
    yield "zeros after the end mark", whole + bytes(100)
    yield "two frames", lz4_of(SMALL[:40]) + lz4_of(SMALL[40:])
    yield "an empty frame after", whole + lz4_header() + LZ4_END
    yield "an empty frame before", lz4_header() + LZ4_END + whole
    yield "a skippable frame before", SKIPPABLE + as_le(4) + b"skip" + whole
    yield "a skippable frame after", whole + SKIPPABLE + as_le(4) + b"skip"
    yield "the legacy magic", b"\x02\x21\x4c\x18" + whole[4:]
    yield "a block cut short", whole[: len(whole) // 2]
    yield "a block whose size lies", whole[:7] + as_le(5) + whole[11:]
    yield "a broken block", whole[:11] + b"\xff" * (len(whole) - 15) + LZ4_END
    yield (
        "an offset before the start",
        lz4_header() + as_le(9) + b"\x10a\x05\x00\x50abcde" + LZ4_END,
    )
    yield "nothing", b""
    yield "a header alone", lz4_header()
    yield "a header and an end", lz4_header() + LZ4_END
    yield "half a header", lz4_header()[:5]


def gzip_cases() -> Iterator[tuple[str, bytes]]:
    """gzip streams."""
    whole = gzip_member(SMALL)
    yield "one member", whole
    yield "a large member", gzip_member(LARGE)
    yield "a stored member", gzip_member(SMALL, level=0)
    yield "two members", gzip_member(SMALL[:40]) + gzip_member(SMALL[40:])
    yield "two large members", gzip_member(LARGE[:200_000], level=0) + gzip_member(LARGE[200_000:])
    yield "members of one byte", b"".join(gzip_member(bytes((byte,))) for byte in SMALL)
    yield "an empty member after", whole + gzip_member(b"")
    yield "an empty member before", gzip_member(b"") + whole
    yield "more records in a second member", whole + whole
    for extra in (1, 8, 17, 18, 19, 100):
        yield f"{extra} zeros after", whole + bytes(extra)
    yield "garbage after", whole + b"garbage " * 20
    yield "a short garbage after", whole + b"garbage"
    yield "a header after", whole + gzip_member(b"")[:10]
    yield "a header and more after", whole + gzip_member(b"")[:10] + b"\xff" * 30
    yield "a member cut short after", whole + gzip_member(SMALL)[:30]
    yield "a member with a wrong CRC after", whole + gzip_member(b"")[:-8] + b"wrongCRC"
    yield "an empty member and garbage after", whole + gzip_member(b"") + b"garbage " * 20
    for kept in (1, 9, 10, 11, 30, len(whole) - 9, len(whole) - 8, len(whole) - 4, len(whole) - 1):
        yield f"cut short at {kept}", whole[:kept]
    yield "a wrong CRC", whole[:-8] + b"\1\2\3\4" + whole[-4:]
    yield "a wrong size", whole[:-4] + b"\1\2\3\4"
    yield "a name", gzip_member(SMALL, 8, b"name\0")
    yield "a name without end", gzip_member(SMALL, 8, b"name")[:14]
    yield "a comment", gzip_member(SMALL, 16, b"comment\0")
    yield "extra fields", gzip_member(SMALL, 4, b"\5\0extra")
    yield "extra fields cut short", gzip_member(SMALL, 4, b"\5\0extra")[:14]
    yield "a header checksum", gzip_member(SMALL, 2)
    yield "all fields", gzip_member(SMALL, 31, b"\5\0extraname\0comment\0")
    checked = bytearray(gzip_member(SMALL, 2))
    checked[10] ^= 1
    yield "a wrong header checksum", bytes(checked)
    yield "the text flag", gzip_member(SMALL, 1)
    yield "a reserved flag", gzip_member(SMALL, 0x20)
    yield "all reserved flags", gzip_member(SMALL, 0xE0)
    yield "another method", whole[:2] + b"\7" + whole[3:]
    yield "another magic", b"\x1f\x8c" + whole[2:]
    yield "zlib's own header", zlib.compress(SMALL)
    yield "a broken body", whole[:20] + b"\xff" * 20 + whole[40:]
    yield "nothing", b""
    yield "an empty member", gzip_member(b"")
    yield "as Python writes it", gzip.compress(SMALL, mtime=0)
    for left in (0, 8, 26, 27):  # Java takes in 8 KiB after the header
        first = gzip_of_input(SMALL[:40], 8_192 - left)
        yield f"the end {left} before that of a read", first + gzip_member(SMALL[40:])
    for left in (0, 8, 17, 18, 19, 25, 26, 27, 30):
        first = gzip_of_input(SMALL, 8_192 - left)
        for more in (10, 12, 17, 18, 19, 20):
            extra = (gzip_member(b"")[:10] + b"\xff" * 20)[:more]
            yield f"a header and {more - 10} more, {left} before the end of a read", first + extra


def snappy_cases() -> Iterator[tuple[str, bytes]]:
    """Xerial streams and raw blocks of snappy."""
    whole = XERIAL + snappy_block(SMALL)
    raw = snappy_raw(SMALL)
    yield "one block", whole
    yield (
        "several blocks",
        XERIAL
        + b"".join(snappy_block(LARGE[at : at + 32_768]) for at in range(0, len(LARGE), 32_768)),
    )
    yield "one large block", XERIAL + snappy_block(LARGE)
    yield "a raw block", raw
    yield "a large raw block", snappy_raw(LARGE)
    yield "a raw block and more", raw + b"x"
    yield "a short raw block", snappy_raw(b"abc")
    yield "two raw blocks", snappy_raw(SMALL[:40]) + snappy_raw(SMALL[40:])
    yield "two streams", XERIAL + snappy_block(SMALL[:40]) + XERIAL + snappy_block(SMALL[40:])
    yield "an empty stream after", whole + XERIAL
    yield "an empty stream before", XERIAL + whole
    yield (
        "a stream of another version after",
        (
            XERIAL
            + snappy_block(SMALL[:40])
            + XERIAL[:8]
            + as_be(2)
            + as_be(0)
            + snappy_block(SMALL[40:])
        ),
    )
    yield "a wrong magic after", whole + b"\x82SNAPPX\0" + as_be(1) + as_be(1) + snappy_block(SMALL)
    yield "a wrong magic alone after", whole + b"\x82SNAPPX\0" + as_be(1) + as_be(1)
    yield "version 0 after", whole + XERIAL[:8] + as_be(0) + as_be(1)
    yield "a negative version after", whole + XERIAL[:8] + as_be(0xFFFF_FFFF) + as_be(1)
    yield "a header cut short after", whole + XERIAL[:10]
    yield "the start of a magic after", whole + XERIAL[:4]
    yield "more records in a second stream", whole + whole
    for extra in (1, 2, 3, 4, 5, 8, 20):
        yield f"{extra} zeros after", whole + bytes(extra)
    yield "a short garbage after", whole + b"gar"
    yield "garbage after", whole + b"garbage " * 5
    yield "an empty block", XERIAL + snappy_block(b"") + snappy_block(SMALL)
    yield "an empty block after", whole + snappy_block(b"")
    yield "a block of no bytes", XERIAL + as_be(0) + snappy_block(SMALL)
    for name, versions in (
        ("version 0", as_be(0) + as_be(0)),
        ("version 2, reader 1", as_be(2) + as_be(1)),
        ("version 2, reader 2", as_be(2) + as_be(2)),
        ("version 1, reader 0", as_be(1) + as_be(0)),
        ("a negative version", as_be(0xFFFF_FFFF) + as_be(1)),
        ("a negative reader", as_be(1) + as_be(0xFFFF_FFFF)),
        ("little-endian versions", as_le(1) + as_le(1)),
    ):
        yield name, XERIAL[:8] + versions + snappy_block(SMALL)
    yield "a block cut short", whole[:-3]
    yield "a block size cut short", XERIAL + snappy_block(SMALL)[:3]
    yield "a negative block size", XERIAL + as_be(0xFFFF_FFF0) + snappy_raw(SMALL)
    yield "a huge block size", XERIAL + as_be(0x7FFF_FFFF) + snappy_raw(SMALL)
    yield "a block that claims less", XERIAL + _claiming(SMALL, len(SMALL) - 1)
    yield "a block that claims more", XERIAL + _claiming(SMALL, len(SMALL) + 1)
    yield "a block that claims 100 MB", XERIAL + _claiming(SMALL, 100_000_000)
    yield "a block that claims 4 GB", XERIAL + _claiming(SMALL, 0xFFFF_FFFF)
    yield "a broken block", XERIAL + as_be(len(raw)) + raw[:3] + b"\xff" * (len(raw) - 3)
    yield "a raw block cut short", raw[:-1]
    yield "a raw block that claims 100 MB", _claiming(SMALL, 100_000_000)[4:]
    yield "a raw block of garbage", b"garbage " * 5
    yield "a header alone", XERIAL
    yield "half a header", XERIAL[:12]
    yield "the magic alone", XERIAL[:8]
    yield "nothing", b""
    yield "a raw block of nothing", b"\0"


def _claiming(plain: bytes, size: int) -> bytes:
    raw = snappy_raw(plain)
    at = 0
    while raw[at] & 0x80:
        at += 1
    claim = bytearray()
    while size >= 0x80:
        claim.append(size & 0x7F | 0x80)
        size >>= 7
    claim.append(size)
    changed = bytes(claim) + raw[at + 1 :]
    return as_be(len(changed)) + changed


def zstd_cases() -> Iterator[tuple[str, bytes]]:
    """zstd frames."""
    packed = bytes(cramjam.zstd.compress(SMALL))
    large = bytes(cramjam.zstd.compress(LARGE))
    whole = zstd_frame(zstd_raw_block(SMALL))
    size = len(SMALL)
    single = zstd_frame(zstd_raw_block(SMALL), flags=0x20, more=bytes((size,)))
    yield "as the library writes it", packed
    yield "large", large
    yield "a raw block", whole
    yield "a single segment", single
    yield "a wrong content size", single[:5] + bytes((single[5] ^ 1,)) + single[6:]
    yield "a wrong content size of a packed frame", (large[:5] + bytes((large[5] ^ 1,)) + large[6:])
    yield (
        "several blocks",
        zstd_frame(zstd_raw_block(SMALL[:10], False) + zstd_raw_block(SMALL[10:])),
    )
    yield "an empty last block", zstd_frame(zstd_raw_block(SMALL, False) + zstd_raw_block(b""))
    yield (
        "several frames",
        zstd_frame(zstd_raw_block(SMALL[:10])) + zstd_frame(zstd_raw_block(SMALL[10:])),
    )
    yield (
        "packed frames",
        bytes(cramjam.zstd.compress(LARGE[:1000])) + bytes(cramjam.zstd.compress(LARGE[1000:])),
    )
    yield "an empty frame after", whole + zstd_frame(zstd_raw_block(b""))
    yield "an empty frame before", zstd_frame(zstd_raw_block(b"")) + whole
    yield "a skippable frame before", SKIPPABLE + as_le(4) + b"skip" + whole
    yield "a skippable frame after", whole + SKIPPABLE + as_le(4) + b"skip"
    yield "a skippable frame alone", SKIPPABLE + as_le(4) + b"skip"
    yield "a skippable frame of nothing after", whole + SKIPPABLE + as_le(0)
    yield "a skippable frame cut short after", whole + SKIPPABLE + as_le(9) + b"skip"
    yield "a header of a skippable frame after", whole + SKIPPABLE[:3]
    yield "more records in a second frame", whole + whole
    yield "no checksum behind its flag", zstd_frame(zstd_raw_block(SMALL), flags=4)
    yield "a wrong checksum", zstd_frame(zstd_raw_block(SMALL), flags=4, tail=b"\1\2\3\4")
    yield "a wrong checksum cut short", zstd_frame(zstd_raw_block(SMALL), flags=4, tail=b"\1\2")
    for log in (10, 17, 20, 22, 24, 25, 26, 27, 28, 29, 30, 31, 40, 41):
        yield f"a window of 2^{log}", zstd_frame(zstd_raw_block(SMALL), window_log=log)
    yield "a window just above 2^27", zstd_frame(zstd_raw_block(SMALL)).replace(b"\x50", b"\x89", 1)
    yield "a dictionary id", zstd_frame(zstd_raw_block(SMALL), flags=1, more=b"\5")
    yield "the dictionary id 0", zstd_frame(zstd_raw_block(SMALL), flags=1, more=b"\0")
    yield "the reserved bit", zstd_frame(zstd_raw_block(SMALL), flags=8)
    yield "the unused bit", zstd_frame(zstd_raw_block(SMALL), flags=16)
    yield (
        "the reserved block type",
        ZSTD_MAGIC + b"\0\x50" + (size << 3 | 7).to_bytes(3, "little") + SMALL,
    )
    yield (
        "a block above 128 KiB",
        zstd_frame(
            zstd_raw_block(LARGE[:140_000], False)
            + zstd_raw_block(LARGE[140_000:260_000], False)
            + zstd_raw_block(LARGE[260_000:]),
            window_log=20,
        ),
    )
    yield (
        "a block above its window",
        zstd_frame(
            zstd_raw_block(LARGE[:2_000], False)
            + zstd_raw_block(LARGE[2_000:102_000], False)
            + zstd_raw_block(LARGE[102_000:202_000], False)
            + zstd_raw_block(LARGE[202_000:302_000], False)
            + zstd_raw_block(LARGE[302_000:]),
            window_log=10,
        ),
    )


def zstd_end_cases() -> Iterator[tuple[str, bytes]]:
    """zstd frames with something after them, or cut short."""
    packed = bytes(cramjam.zstd.compress(SMALL))
    whole = zstd_frame(zstd_raw_block(SMALL))
    for name, garbage in (
        ("garbage", b"garbage " * 5),
        ("zeros", bytes(20)),
        ("one byte", b"x"),
        ("two zeros", bytes(2)),
        ("three bytes of a magic", ZSTD_MAGIC[:3]),
        ("a magic", ZSTD_MAGIC),
        ("half a frame", whole[:20]),
        ("a frame without its last byte", whole[:-1]),
        ("an old frame", b"\x27\xb5\x2f\xfd" + whole[4:]),
    ):
        yield f"{name} after", whole + garbage
    read = 131_075  # what Java's reader takes in at a time
    for left in (0, 1, 3):
        first = zstd_ending_at(SMALL, read - left)
        yield f"a magic {left} before the end of a read", first + ZSTD_MAGIC
        yield (
            f"a skippable frame {left} before the end of a read",
            (first + SKIPPABLE + as_le(4) + b"skip"),
        )
        yield f"three bytes of a magic {left} before the end of a read", first + ZSTD_MAGIC[:3]
    yield "half a packed frame after", whole + packed[:30]
    for kept in (1, 3, 4, 5, 6, 9, 20, len(whole) - 1):
        yield f"cut short at {kept}", whole[:kept]
    yield "without its last byte", packed[:-1]
    yield "without a last block", zstd_frame(zstd_raw_block(SMALL, False))
    yield (
        "without a last block, large",
        zstd_frame(
            b"".join(
                zstd_raw_block(LARGE[at : at + 65_536], False)
                for at in range(0, len(LARGE), 65_536)
            )
        ),
    )
    yield "another magic", b"\x28\xb5\x2f\xfc" + whole[4:]
    yield "a magicless frame", whole[4:]
    yield "a broken body", packed[:12] + b"\xff" * (len(packed) - 12)
    yield "an empty frame", zstd_frame(zstd_raw_block(b""))
    yield "nothing", b""


def counted_cases(codec: int, pack: Callable[[bytes], bytes]) -> Iterator[tuple[str, bytes]]:
    """Payloads that hold other records than the header says: there are three."""
    yield "fewer records than it says", batch_of(codec, pack(SMALL), 4)
    yield "more records than it says", batch_of(codec, pack(SMALL), 2)
    yield "a byte after the last record", batch_of(codec, pack(SMALL + b"\0"))
    yield "zeros after the last record", batch_of(codec, pack(SMALL + bytes(50)))
    yield "the last record cut short", batch_of(codec, pack(SMALL[:-1]))
    yield "the last record cut in its length", batch_of(codec, pack(SMALL + b"\x80"), 4)
    yield "no records", batch_of(codec, pack(b""))


def message_cases() -> Iterator[tuple[str, bytes]]:
    """Compressed messages of the formats 0 and 1."""
    for magic in (0, 1):
        inner = b"".join(message_of(magic, 0, b"value %d" % at, at) for at in range(3))
        frame = lz4_of(inner)
        old = frame[:6] + bytes((xxh32_short(frame[:6]) >> 8 & 0xFF,)) + frame[7:]
        wrong = frame[:6] + bytes((frame[6] ^ 1,)) + frame[7:]
        for kind, codec, payload in (
            ("gzip", GZIP, gzip_member(inner)),
            ("snappy", SNAPPY, XERIAL + snappy_block(inner)),
            ("a raw block of snappy", SNAPPY, snappy_raw(inner)),
            ("lz4", LZ4, frame),
            ("lz4 with the checksum of format 0", LZ4, old),
            ("lz4 with a wrong header checksum", LZ4, wrong),
            ("linked lz4", LZ4, lz4_of_library(inner, block_linked=True)),
            ("zstd", ZSTD, zstd_frame(zstd_raw_block(inner))),
            ("two lz4 frames", LZ4, lz4_of(inner[:20]) + lz4_of(inner[20:])),
            ("garbage behind gzip", GZIP, gzip_member(inner) + b"garbage"),
            ("nothing in gzip", GZIP, gzip_member(b"")),
            ("nothing", GZIP, b""),
            ("gzip cut short", GZIP, gzip_member(inner)[:-3]),
            ("a byte after the last message", GZIP, gzip_member(inner + b"\0")),
            ("zeros after the last message", GZIP, gzip_member(inner + bytes(50))),
            ("the last message cut short", GZIP, gzip_member(inner[:-1])),
            ("a wrong inner checksum", GZIP, gzip_member(inner[:-1] + b"x")),
            ("the other format inside", GZIP, gzip_member(message_of(1 - magic, 0, b"value"))),
            (
                "compressed twice",
                GZIP,
                gzip_member(message_of(magic, GZIP, gzip_member(inner), 2)),
            ),
        ):
            yield f"format {magic}: {kind}", message_of(magic, codec, payload, 2)


def _joined(
    *makers: Callable[[], Iterator[tuple[str, bytes]]],
) -> Iterator[tuple[str, bytes]]:
    for make in makers:
        yield from make()


def cases() -> Iterator[tuple[str, bytes]]:
    """Name and batch, or message of an old format, of each."""
    for codec, name, payloads, pack in (
        (GZIP, "gzip", _joined(gzip_cases), gzip_member),
        (SNAPPY, "snappy", _joined(snappy_cases), lambda plain: XERIAL + snappy_block(plain)),
        (LZ4, "lz4", _joined(lz4_cases, lz4_header_cases, lz4_end_cases), lz4_of),
        (
            ZSTD,
            "zstd",
            _joined(zstd_cases, zstd_end_cases),
            lambda plain: zstd_frame(zstd_raw_block(plain)),
        ),
    ):
        for kind, payload in payloads:
            yield f"{name}: {kind}", batch_of(codec, payload)
        for kind, batch in counted_cases(codec, pack):
            yield f"{name}: {kind}", batch
    yield from message_cases()
