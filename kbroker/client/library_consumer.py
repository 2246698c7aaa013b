"""kafka-python's consumer, for commands that are a member of a group or read a record here and
there. It unpacks records with the project's own codecs: those of its extras are 29 MB, and ours are
here already.

Law: it holds a batch whole, and of old messages an object for each, so it is given small ones only.
What is larger it finds corrupt, and whoever polls reads it with the project's own reader.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from kbroker.client.fetched_batches import HELD_BYTES
from kbroker.errors import KafkaError
from kbroker.record.compression import GZIP, LZ4, SNAPPY, ZSTD, Bytes, decompress

_OLD_BYTES = 4 * 1024 * 1024  # of what an old message wraps
_LENT = {"gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}


def library_consumer(**options: Any) -> Any:
    """A `KafkaConsumer` with these options of kafka-python; the caller closes it."""
    from kafka import KafkaConsumer  # 130 ms that nobody else pays

    lend_codecs()
    return KafkaConsumer(**options)


def lend_codecs() -> None:
    """Have kafka-python's readers of records call ours, by the names they took over at import."""
    from kafka import codec as library_codecs
    from kafka.record import default_records, legacy_records

    for name, codec in _LENT.items():
        setattr(library_codecs, f"has_{name}", _is_here)
        for module in (library_codecs, default_records, legacy_records):
            most_bytes = _OLD_BYTES if module is legacy_records else HELD_BYTES
            setattr(module, f"{name}_decode", partial(_unpacked, codec, most_bytes))


def _is_here() -> bool:
    return True


def _unpacked(codec: int, most_bytes: int, data: Bytes) -> Bytes:
    from kafka.errors import CorruptRecordError

    try:
        return decompress(codec, data, most_bytes)
    except KafkaError as error:
        raise CorruptRecordError(str(error)) from error
