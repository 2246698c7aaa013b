"""The written list: batches that kbroker takes or refuses otherwise than both lines of Apache Kafka,
or stores otherwise, and why. Everything else is a difference to be mended.
"""

from __future__ import annotations

from compat_tests.batches.judging import Allowed

_STORED = r"^0(, with a time)?, stored "
_NOT_READ = _STORED + r".*(unreadable|missing|offsets)"

ALLOWED = (
    Allowed(
        r"",
        r"^(87|76|10)$",
        r"^-1$",
        "a payload that cannot be read, or a codec that is none: a code that a client can act on",
    ),
    Allowed(
        r"",
        r"^(87|32(, records.*)?)$",
        _NOT_READ,
        "Kafka's broker skips over keys and values; its own consumer reads them, and fails",
    ),
    Allowed(
        r"^misplaced",
        _STORED + r"[0-9a-f ]+$",
        r"^0",
        "Kafka stores uncompressed records at offsets that do not follow each other, and consumers "
        "miss them; here they are renumbered",
    ),
    Allowed(
        r"^(in-zstd|unpacked).*log append time",
        _STORED + r"[0-9a-f ]+$",
        _STORED + r"[0-9a-f ]+$",
        "a client that says the times are the broker's: compressed again, the records keep their "
        "own, and get the header's largest from Kafka",
    ),
    Allowed(
        r"^(in-zstd|unpacked).*(base time|delta|no times)",
        _STORED + r"[0-9a-f ]+$",
        r"^-1$",
        "times before 1970 other than -1: Kafka stores them, but cannot compress them again",
    ),
    Allowed(
        r"(huge|overflowing) delta|base time",
        r"^32, records",
        r"^(0|-1$)",
        "base and delta add up to a time beyond 64 bits, which Kafka lets wrap around, and cannot "
        "compress again",
    ),
    Allowed(
        r"^old|old magic|length",
        r"^(2|87)$",
        r"^-1$",
        "a message or batch that cannot be, or ends within its header: a code that a client can "
        "act on",
    ),
    Allowed(
        r"old magic|^old",
        r"^(2|87)$",
        r"^(2|87)$",
        "old messages are refused by both: what is wrong within them is seen in another order",
    ),
    Allowed(
        r"^old.*old (magic|value)",
        r"^(2|87)$",
        r"^32$",
        "refused by both, for a message that cannot be here and for a time there",
    ),
    Allowed(
        r"^old.*old cut",
        r"^32$",
        r"^-1$",
        "refused by both, here for a time that stands before the end that is missing",
    ),
    Allowed(
        r"^old.*old value",
        r"^87$",
        r"^0",
        "a message that goes on behind its value: Kafka drops what is there",
    ),
    Allowed(
        r"^old.*(old cut|flipped bit)",
        _STORED + r"[0-9a-f ]+$",
        r"^-1$",
        "a message that is cut off at the end of compressed ones is let be, as among others",
    ),
    Allowed(
        r"^appended.*log append time",
        r"^32, records",
        r"^(-1|87)",
        "refused for what it says of its times, before its records are read",
    ),
    Allowed(
        r"",
        r"^87$",
        r"^(87|32), records",
        "a record that cannot be read is the reason, whatever is wrong with the others",
    ),
)
