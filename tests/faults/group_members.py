"""What the processes of a history do as members of the group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbroker.errors import ErrorCode
from tests.faults.group_clients import Client, Sent
from tests.faults.group_cluster import RACKS

if TYPE_CHECKING:
    from kbroker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
    from tests.faults.group_simulation import GroupHistory

TOPICS = ("a", "b", "c")
_MOST = 6  # processes at a time
_PATTERNS = ("[ab]", "b|c", "[a-c]")


class Members:
    """The processes of one history."""

    def __init__(self, history: GroupHistory) -> None:
        self._history = history
        self._random = history.random
        self.clients: list[Client] = []
        self._leaving: list[Sent] = []
        self._pattern_share = self._random.choice((0.0, 0.3, 0.8))

    @property
    def live(self) -> list[Client]:
        return [each for each in self.clients if not each.is_gone]

    def _free(self) -> Client | None:
        free = [each for each in self.live if each.pending is None]
        return self._random.choice(free) if free else None

    # ---- what they do

    def join(self) -> None:
        """A process starts."""
        if len(self.live) >= _MOST:
            return
        random = self._random
        instance_id = random.choice((None, "i1", "i2"))
        if instance_id in {each.instance_id for each in self.live}:
            instance_id = None
        number = len(self.clients) + 1
        client = Client(
            name=f"c{number}",
            instance_id=instance_id,
            topics=self._some_topics(1),
            pattern=random.choice(_PATTERNS) if random.random() < self._pattern_share else "",
            member_id=f"m{number}",
            rack_id=random.choice((None, *RACKS)),
            assignor=random.choice((None, None, "uniform", "range")),
        )
        self.clients.append(client)
        self._history.tell(
            f"{client.name} comes as {client.member_id}, {instance_id}, for {client.topics}"
            f" {client.pattern}, in {client.rack_id}, by {client.assignor}"
        )
        self.send(client)

    def _some_topics(self, least: int) -> tuple[str, ...]:
        count = self._random.randint(least, 2)
        return tuple(sorted(self._random.sample(TOPICS, count)))

    def beat(self) -> None:
        client = self._free()
        if client is not None:
            if self._random.random() < 0.7:
                client.give_up()
                if self._random.random() < 0.7:
                    client.begin()
            self.send(client)

    def send(self, client: Client) -> None:
        """Send the next heartbeat."""
        request = client.request()
        sent = self._sent(client, request)
        if client.epoch == 0:
            self._history.laws.joins(client.instance_id)
        if request.topic_partitions is not None:
            client.last_said = set(client.has)
        if self._history.line.send(sent):
            client.pending = sent
        else:
            client.heard_nothing()

    def _sent(self, client: Client, request: ConsumerGroupHeartbeatRequest) -> Sent:
        history, broker = self._history, self._history.broker
        sent = Sent(client, client.epoch, lambda: None)

        def deliver() -> Any:
            sent.facts = history.laws.facts(broker, client.member_id)
            return broker.groups.consumer_groups.heartbeat(
                request, api_version=1, client_id=client.name, client_host="/127.0.0.1"
            )

        sent.deliver = deliver
        return sent

    def leave(self) -> None:
        """A process ends, a static one maybe for a while."""
        client = self._free()
        if client is None or client.epoch <= 0:
            return
        epoch = -2 if client.instance_id is not None and self._random.random() < 0.7 else -1
        client.stop()
        self._history.tell(f"{client.name} leaves with {epoch}")
        sent = self._sent(client, client.leaving(epoch))
        client.is_gone = True
        self._history.line.send(sent)
        self._leaving.append(sent)

    def lose_patience(self) -> None:
        """A client does not wait any longer for an answer, and asks again."""
        waiting = [each for each in self.live if each.pending is not None]
        if waiting:
            client = self._random.choice(waiting)
            client.pending = None
            client.heard_nothing()
            self._history.tell(f"{client.name} asks again")
            self.send(client)

    def arrive_late(self) -> bool:
        """Something arrives that was on its way for long."""
        sent = self._history.line.let_arrive()
        if sent is not None:
            self._history.tell(f"late from {sent.client.name} in {sent.epoch}")
        return sent is not None

    def vanish(self) -> None:
        client = self._free()
        if client is not None:
            self._history.tell(f"{client.name} vanishes")
            client.is_gone = True
            client.stop()

    def resubscribe(self) -> None:
        client = self._free()
        if client is not None:
            client.topics = self._some_topics(0)
            if self._random.random() < self._pattern_share:
                client.pattern = self._random.choice(("", *_PATTERNS))
            client.says_all = True
            self._history.tell(f"{client.name} wants {client.topics} {client.pattern}")

    def read(self) -> None:
        """A client finds out where to read, or commits how far it has read."""
        client = self._free()
        if client is None or client.epoch <= 0:
            return
        if client.has - client.positions.keys():
            self._history.commits.look_up(client)
        else:
            self._history.commits.commit(client)

    # ---- what they hear

    def take_answers(self) -> None:
        history = self._history
        for client in self.live:
            sent = client.pending
            if sent is None or not sent.is_answered:
                continue
            client.pending = None
            if history.line.loses_answer():
                client.heard_nothing()
                history.tell(f"{client.name}: answer lost")
                continue
            history.tell(f"{client.name} in {client.epoch}: {_short(sent.response)}")
            history.laws.answered(client, sent)
            client.take(sent.response)
        for sent in [each for each in self._leaving if each.is_answered]:
            self._leaving.remove(sent)
            history.laws.left(sent.client, sent)

    # ---- the end

    def come_to_rest(self) -> None:
        """Let all say everything again, as what they were to be told may have gone to nobody, and
        Kafka also lets a member that is behind by an epoch ask without it, and then tells it
        nothing. One of them gives nothing up any more, until it is fenced.
        """
        for client in self.live:
            client.says_all = True
        if self.live and self._random.random() < 0.5:
            self._random.choice(self.live).is_stubborn = True

    async def all_beat(self) -> None:
        for client in self.live:
            if client.pending is None:
                client.give_up()
                client.begin()
                self.send(client)
                await self._history.turns()
        self.take_answers()


def _short(response: Any) -> str:
    code = ErrorCode(response.error_code)
    if code is not ErrorCode.NONE:
        return f"{code.name} {response.error_message}"
    told = response.assignment
    if told is None:
        return f"epoch {response.member_epoch}"
    has = dict(sorted((str(t.topic_id)[-2:], t.partitions) for t in told.topic_partitions))
    return f"epoch {response.member_epoch} {has}"
