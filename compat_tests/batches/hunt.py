"""Rounds of generated batches: sent to every broker, read back by Java, held against each other."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from random import Random
from threading import Thread

from compat_tests.answers.hunt import NEW
from compat_tests.batches import generating
from compat_tests.batches.allowed import ALLOWED
from compat_tests.batches.generating import Generated
from compat_tests.batches.judging import OWN, Difference, differences, sent, unexplained
from compat_tests.batches.reading import JavaReader
from compat_tests.batches.sending import Answer, Request, Sender
from compat_tests.wire.wire_client import WireClient

_PARTITIONS = 20
_NEVER = str(2**63 - 1)
# Nothing is rolled, deleted or compacted for times that batches invent.
_COMMON = {
    "retention.ms": "-1",
    "segment.ms": _NEVER,
    "message.timestamp.after.max.ms": _NEVER,
    "min.compaction.lag.ms": _NEVER,
}
_HOUR_MS = "3600000"
_KINDS: dict[str, dict[str, str]] = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact"},
    "appended": {"message.timestamp.type": "LogAppendTime"},
    "bounded": {
        "message.timestamp.before.max.ms": _HOUR_MS,
        "message.timestamp.after.max.ms": _HOUR_MS,
    },
    "in-zstd": {"compression.type": "zstd"},
    "unpacked": {"compression.type": "uncompressed"},
    "small": {"max.message.bytes": "300"},
    "sequences": {},
    "misplaced": {},
    "untimely-compacted": {
        "cleanup.policy": "compact",
        "message.timestamp.before.max.ms": _HOUR_MS,
        "message.timestamp.after.max.ms": _HOUR_MS,
    },
    "old": {},
    "old-compacted": {"cleanup.policy": "compact"},
    "old-appended": {"message.timestamp.type": "LogAppendTime"},
    "old-bounded": {"message.timestamp.before.max.ms": _HOUR_MS},
    "old-untimely-compacted": {
        "cleanup.policy": "compact",
        "message.timestamp.before.max.ms": _HOUR_MS,
    },
    "old-in-zstd": {"compression.type": "zstd"},
    "old-unpacked": {"compression.type": "uncompressed"},
    "old-small": {"max.message.bytes": "150"},
}


class Hunt:
    """The topics of one run, on brokers that are given by their addresses."""

    def __init__(self, addresses: Mapping[str, str]) -> None:
        self.count = self.taken = self.allowed = 0
        self._addresses = dict(addresses)
        self._old = [name for name in addresses if name != NEW]  # closes the connection on old ones
        self._run = f"-{uuid.uuid4().hex[:6]}"
        for address in addresses.values():
            client = WireClient(address)
            for kind, configs in _KINDS.items():
                client.create_topic(kind + self._run, _PARTITIONS, _COMMON | configs)
            client.close()
        self._senders = {name: Sender(address) for name, address in addresses.items()}
        self._reader = JavaReader()

    def round(self, seed: str, batches: int, only: str = "") -> list[Difference]:
        """Send so many; what is not explained. `only`: to topics whose kinds begin so."""
        chance = Random(seed)
        found = []
        kinds = [kind for kind in _KINDS if kind.startswith(only)]
        share = batches // (len(kinds) if only else 2 * (len(kinds) - 1))
        for kind in kinds:
            if kind != "plain":
                found += self._ask(kind, share, chance)
        if only:
            return found
        return found + self._ask("plain", batches - share * (len(kinds) - 1), chance)

    def close(self) -> None:
        for sender in self._senders.values():
            sender.close()
        self._reader.close()

    def _ask(self, kind: str, count: int, chance: Random) -> list[Difference]:
        requests = [
            Request(kind + self._run, partitions, batches)
            for partitions, batches in _parts(chance, kind, count)
        ]
        names = self._old if kind.startswith("old") else list(self._addresses)
        answers: dict[str, list[list[Answer]]] = {}

        def send(name: str) -> None:
            answers[name] = self._senders[name].send(requests)

        threads = [Thread(target=send, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(answers) == set(names), f"no answer from {set(names) - set(answers)}"
        stored = {
            name: self._reader.new_records(self._addresses[name], kind + self._run, _PARTITIONS)
            for name in names
        }
        batches = list(sent(requests, {name: answers[name] for name in names}))
        self.count += sum(each.is_judged for each in batches)
        self.taken += sum(not each.answers[OWN].code for each in batches)
        different = differences(kind, batches, stored)
        found = unexplained(different, ALLOWED)
        self.allowed += len(different) - len(found)
        return found


def _parts(
    chance: Random, kind: str, count: int
) -> Iterator[tuple[tuple[int, ...], tuple[Generated, ...]]]:
    """Draw what goes into each request; batches that spoil a whole request have their own."""
    now_ms = int(time.time() * 1000)
    together: list[Generated] = []
    for _ in range(count):
        batch = _batch(chance, kind, len(together), now_ms)
        if batch.is_alone:
            yield (chance.randrange(_PARTITIONS),), (batch,)
            continue
        together.append(batch)
        if len(together) == _PARTITIONS:
            yield tuple(range(_PARTITIONS)), tuple(together)
            together.clear()
    if together:
        yield tuple(range(len(together))), tuple(together)


def _batch(chance: Random, kind: str, partition: int, now_ms: int) -> Generated:
    if kind == "sequences":
        return generating.idempotent(chance, now_ms, partition)
    if kind == "misplaced":
        return generating.misplaced(chance, now_ms)
    if kind.startswith("old"):
        return generating.old_set(chance, now_ms)
    if chance.random() < 0.01:
        return generating.old_set(chance, now_ms, generating.NEW_VERSION)
    return generating.batch(chance, now_ms)
