"""The facts that a task reports, which travel from workers to the driver as text. Pure."""

from __future__ import annotations

from typing import Final

import msgspec

from kbroker.pipeline.archiving.manifests.manifest import FileEntry

FACT_SCHEMA: Final = "fact STRING, gaps BINARY"


class FileFact(msgspec.Struct, frozen=True, tag="file"):
    """A file is on the disk."""

    staged_path: str
    entry: FileEntry


class PartFact(msgspec.Struct, frozen=True, tag="part"):
    """A task's part of a partition; its gaps travel beside it, as pairs of int64: start, end."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    rows: int


class TroubleFact(msgspec.Struct, frozen=True, tag="trouble"):
    """The reason why a task gave up; `may_be_exact`: exact reading would not have it."""

    sentence: str
    may_be_exact: bool = False


Fact = FileFact | PartFact | TroubleFact
_FACTS: Final[msgspec.json.Decoder[Fact]] = msgspec.json.Decoder(Fact)


def decode_fact(text: str) -> Fact:
    return _FACTS.decode(text)
