"""kio, an independent codec, reads what we write and writes what we read, in every version that
both know.
"""

from __future__ import annotations

import importlib
import io
import re
from random import Random
from types import ModuleType
from typing import Any

import pytest

from kbroker.protocol.codec import decode, encode
from kbroker.protocol.schema import Message
from tests.properties.message_samples import every_version, random_struct

serial: Any = pytest.importorskip("kio.serial", reason="kio is not installed")


def kio_module(cls: type[Message], version: int) -> ModuleType | None:
    api, kind = re.fullmatch(r"(\w+)(Request|Response)", cls.__name__).groups()  # type: ignore[union-attr]
    package = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", api).lower()
    try:
        return importlib.import_module(f"kio.schema.{package}.v{version}.{kind.lower()}")
    except ModuleNotFoundError:
        return None


SHARED = [
    (cls, version) for cls, version in every_version() if kio_module(cls, version) is not None
]


def name(value: object) -> str:
    return value.__name__ if isinstance(value, type) else str(value)


def through_kio(entity: Any, body: bytes) -> bytes:
    """Decode with kio, encode with kio."""
    read, size = serial.entity_reader(entity)(body, 0)
    assert size == len(body)
    with io.BytesIO() as buffer:
        serial.entity_writer(entity)(buffer, read)
        return buffer.getvalue()


@pytest.mark.parametrize(("cls", "version"), SHARED, ids=name)
def test_kio_reads_and_writes_the_same_bytes(cls: type[Message], version: int) -> None:
    entity = getattr(kio_module(cls, version), cls.__name__)
    bodies = [encode(random_struct(cls, version, Random(seed)), version) for seed in range(8)]

    theirs = [through_kio(entity, body) for body in bodies]

    assert theirs == bodies
    assert [encode(decode(cls, version, body)[0], version) for body in theirs] == bodies


def test_kio_shares_most_versions() -> None:
    assert len(SHARED) > 250
