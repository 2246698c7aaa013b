"""Records with times and names of headers that brokers store, and that few programs expect."""

from __future__ import annotations

from kbroker.record.record_batch import Record, build

BASE_MS = 1_795_266_000_000  # 2026-11-21 13:00 UTC
LATEST_SHOWN_MS = (2**63 - 1) // 1_000  # the last time that a TIMESTAMP of Spark holds
TIMES_MS = (
    BASE_MS,
    BASE_MS * 1_000_000,  # nanoseconds, which somebody took for milliseconds
    LATEST_SHOWN_MS,
    LATEST_SHOWN_MS + 1,
    2**63 - 1,
    BASE_MS * 1_000,
    -1,
)
NAMES = (
    b"\xff\xfe",
    b"\xed\xa0\xbd",  # half a pair of surrogates
    b"\xed\xa0\xbd\xed\xb8\x80",  # both halves, as CESU-8 has them
    b"",
    b"\xff\xfe",
    "\ufffd".encode(),
    "gr\u00f6\u00dfe".encode(),
)


def odd_records() -> list[Record]:
    """One of each time; with all names together, each alone, and none."""
    names = [name.decode("utf-8", "surrogateescape") for name in NAMES]
    all_together = tuple((name, b"%d" % n if n % 2 else None) for n, name in enumerate(names))
    headers = [all_together, *([(name, b"v")] for name in names), ()]
    count = max(len(headers), len(TIMES_MS))
    return [
        Record(
            offset, TIMES_MS[offset % len(TIMES_MS)], b"k%d" % offset, b"v",
            tuple(headers[offset % len(headers)]),
        )
        for offset in range(count)
    ]  # fmt: skip


def odd_batches() -> list[bytes]:
    """These records from offset 0 on, each in a batch of its own."""
    return [build([record], base_offset=record.offset) for record in odd_records()]
