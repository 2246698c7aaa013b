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
from tests.golden.wire.declared_messages import all_messages
from tests.properties.message_samples import random_struct, versions_of

serial: Any = pytest.importorskip("kio.serial", reason="kio is not installed")


def kio_module(cls: type[Message], version: int) -> ModuleType | None:
    api, kind = re.fullmatch(r"(\w+)(Request|Response)", cls.__name__).groups()  # type: ignore[union-attr]
    package = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", api).lower()
    try:
        return importlib.import_module(f"kio.schema.{package}.v{version}.{kind.lower()}")
    except ModuleNotFoundError:
        return None


def entities(cls: type[Message]) -> dict[int, Any]:
    """kio's classes for a message, by version. Each is imported by itself, which takes its time."""
    modules = {version: kio_module(cls, version) for version in versions_of(cls)}
    return {v: getattr(module, cls.__name__) for v, module in modules.items() if module is not None}


def through_kio(entity: Any, body: bytes) -> bytes:
    """Decode with kio, encode with kio."""
    read, size = serial.entity_reader(entity)(body, 0)
    assert size == len(body)
    with io.BytesIO() as buffer:
        serial.entity_writer(entity)(buffer, read)
        return buffer.getvalue()


@pytest.mark.parametrize("cls", all_messages(), ids=lambda cls: cls.__name__)
def test_kio_reads_and_writes_the_same_bytes(cls: type[Message]) -> None:
    for version, entity in entities(cls).items():
        bodies = [encode(random_struct(cls, version, Random(seed)), version) for seed in range(8)]

        theirs = [through_kio(entity, body) for body in bodies]

        assert theirs == bodies, version
        assert [encode(decode(cls, version, body)[0], version) for body in theirs] == bodies, (
            version
        )


def test_kio_shares_most_versions() -> None:
    assert sum(len(entities(cls)) for cls in all_messages()) > 250
