"""Who takes part in a sequence: producers, topics, groups, and the names of ids that a broker gave.

Law: a sequence has names of its own on the broker, so that many run side by side; in answers all of
them are as the sequence writes them, and a producer id is named after who got it first.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from compat_tests.running.waiting import until
from compat_tests.wire.group_member import Member
from compat_tests.wire.wire_client import WireClient

_BEING_DELETED = ("7 ", "36 ")


@dataclass
class Producer:
    """What a client keeps: its transactional id, what InitProducerId gave it, its sequences."""

    transactional_id: str | None
    producer_id: int = -1
    epoch: int = -1
    sequences: dict[tuple[str, int], int] = field(default_factory=dict)

    def became(self, producer_id: int, epoch: int) -> None:
        """A broker gave it an id and an epoch: sequences begin at 0."""
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self.sequences.clear()
        self.producer_id, self.epoch = producer_id, epoch


class Actors:
    """All names of one sequence. `prefix` stands before those that a broker sees."""

    def __init__(self, prefix: str, bootstrap: str) -> None:
        self.prefix = prefix
        self._bootstrap = bootstrap
        self._producers: dict[str, Producer] = {}
        self._ids: dict[int, str] = {-1: "-1"}
        self._topics: set[str] = set()
        self._members: dict[str, Member] = {}
        self._opened: list[WireClient] = []

    def producer(self, name: str) -> Producer:
        """Known from its first mention on; its transactional id is its name, unless it is renamed."""
        if name not in self._producers:
            self._producers[name] = Producer(self.prefix + name)
        return self._producers[name]

    def name_on_broker(self, name: str) -> str:
        """Of a topic, group or transactional id; nothing stays nothing, `__` names are Kafka's."""
        return name if name in ("", "-") or name.startswith("__") else self.prefix + name

    def name_in_sequence(self, text: str) -> str:
        """The way back."""
        return text.replace(self.prefix, "")

    def name_id(self, producer_id: int, name: str) -> None:
        """A producer id is named once; a further one of the same producer gets a number."""
        if producer_id in self._ids:
            return
        number = sum(known.split("'")[0] == name for known in self._ids.values())
        self._ids[producer_id] = name + "'" * number

    def id_name(self, producer_id: int) -> str:
        """The name of a producer id."""
        return self._ids.get(producer_id, "unknown")

    def number(self, text: str, own: int) -> int:
        """`own`, `own+1`, `own-1`, a plain number, or the id of another producer."""
        if text.startswith("own"):
            return own + int(text.removeprefix("own") or 0)
        if text in self._producers:
            return self._producers[text].producer_id
        return int(text)

    def topic(self, name: str, client: WireClient) -> str:
        """The name that the broker knows; the topic is made at its first mention, with two
        partitions, unless its name begins with `missing` or `__`.
        """
        on_broker = self.name_on_broker(name)
        if name and not name.startswith(("missing", "__")) and name not in self._topics:
            self.make_topic(name, client, {})
        return on_broker

    def make_topic(self, name: str, client: WireClient, configs: dict[str, str]) -> None:
        """Make a topic with settings; one that is being deleted is waited for."""
        self._topics.add(name)
        entries = [{"name": key, "value": value} for key, value in configs.items()]
        on_broker = self.name_on_broker(name)
        wanted = {"name": on_broker, "num_partitions": 2, "configs": entries}

        def is_made() -> bool:
            (said,) = client.create_topics(wanted)
            assert said == "0" or said.startswith(_BEING_DELETED), said
            return said == "0"

        until(is_made, f"{name} is made")
        client.wait_for_topic(on_broker, 2)
        # 4.3.1 leads a topic before its requests can name it.
        until(lambda: client.metadata(on_broker).error_code.value == 0, f"{name} is known")

    def forget_topic(self, name: str) -> None:
        """It was deleted: its next mention makes it again."""
        self._topics.discard(name)

    def join(self, group: str, instance: str | None = None) -> Member:
        """Become the one member of a group, on a connection of its own."""
        self._opened.append(WireClient(self._bootstrap))
        self._opened[-1].wait_for_coordinator(self.name_on_broker(group))
        member = Member(self._opened[-1], self.name_on_broker(group), instance)
        self._members[group] = member.join_and_sync()
        return member

    def member(self, group: str) -> Member:
        """The member that joined."""
        return self._members[group]

    def close(self) -> None:
        """Give all connections up."""
        for client in self._opened:
            client.close()
