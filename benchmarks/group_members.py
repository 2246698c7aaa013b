"""Members of consumer groups of KIP-848 over raw connections, and requests at an even pace.

A member does what a client has to: it takes what it is given, gives up at once what it is to give up,
and says so with its next heartbeat.
"""

from __future__ import annotations

import select
import socket
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import cycle
from typing import Any
from uuid import UUID, uuid4

from benchmarks.generator import Address
from benchmarks.raw_client import RawClient, frame_of
from kbroker.protocol import codec
from kbroker.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

HEARTBEAT, VERSION = 68, 1
_LEAVING = -1
_HEAD_BYTES = 5  # of an answer, before its body
_BUSY = frozenset({14, 15, 16})  # a coordinator that is about to be there
_REBALANCE_TIMEOUT_MS = 60_000
_AT_ONCE = 100  # requests of a connection that are unanswered
_PAUSE_S = 0.05  # of members that have nothing to say
_PATIENCE_S = 300.0
Partitions = dict[UUID, list[int]]


class Member:
    """One member: `has` partitions by the id of their topic."""

    def __init__(self, group_id: str, topics: Sequence[str]) -> None:
        self.group_id, self.topics = group_id, list(topics)
        self.member_id = str(uuid4())
        self.epoch = 0
        self.has: Partitions = {}
        self.has_news = False  # for the coordinator

    def heartbeat(self) -> ConsumerGroupHeartbeatRequest:
        """The next request."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=self.epoch
        )
        if self.epoch == 0:
            request.rebalance_timeout_ms = _REBALANCE_TIMEOUT_MS
            request.subscribed_topic_names = self.topics
        if self.epoch == 0 or self.has_news:
            request.topic_partitions = [
                ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=topic_id, partitions=indexes)
                for topic_id, indexes in self.has.items()
            ]
        return request

    def leaving(self) -> ConsumerGroupHeartbeatRequest:
        """The last request."""
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=_LEAVING
        )

    def hear(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        """Do what an answer asks for. RuntimeError if it refuses."""
        if answer.error_code in _BUSY:
            return
        if answer.error_code:
            raise RuntimeError(f"a member heard {answer.error_code}: {answer.error_message}")
        self.epoch = answer.member_epoch
        self.has_news = answer.assignment is not None
        if answer.assignment is not None:
            self.has = {
                each.topic_id: each.partitions for each in answer.assignment.topic_partitions
            }

    @property
    def count(self) -> int:
        """How many partitions it has."""
        return sum(map(len, self.has.values()))


class Members:
    """Members, shared out over connections to their coordinator."""

    def __init__(self, address: Address, members: Sequence[Member], connections: int) -> None:
        self.all = list(members)
        self._clients = [RawClient(address) for _ in range(min(connections, len(members)))]

    def beat(self, members: Iterable[Member] | None = None) -> None:
        """Send a heartbeat of each, and let it hear the answer; all connections at once."""
        shares: list[list[Member]] = [[] for _ in self._clients]
        for number, member in enumerate(self.all if members is None else members):
            shares[number % len(shares)].append(member)
        longest = max(map(len, shares))
        for start in range(0, longest, _AT_ONCE):
            parts = [share[start : start + _AT_ONCE] for share in shares]
            for client, part in zip(self._clients, parts, strict=True):
                client.send(
                    b"".join(frame_of(each.heartbeat(), HEARTBEAT, VERSION) for each in part)
                )
            for client, part in zip(self._clients, parts, strict=True):
                for member in part:
                    member.hear(_answer(client))

    def settle(self, partitions: int) -> float:
        """Beat until the members of every group share so many partitions; how many seconds that took."""
        begun = time.perf_counter()
        groups: dict[str, list[Member]] = {}
        for member in self.all:
            groups.setdefault(member.group_id, []).append(member)
        while True:
            left = [
                each for of in groups.values() if not _is_settled(of, partitions) for each in of
            ]
            if not left:
                return time.perf_counter() - begun
            if time.perf_counter() - begun > _PATIENCE_S:
                raise RuntimeError(f"{len(left)} members have not reached their target")
            self.beat(left)
            if not any(each.has_news for each in left):
                time.sleep(_PAUSE_S)

    def leave(self, member: Member) -> None:
        """Let one go."""
        self.all.remove(member)
        client = self._clients[0]
        client.send(frame_of(member.leaving(), HEARTBEAT, VERSION))
        answer = _answer(client)
        if answer.error_code:
            raise RuntimeError(f"a member that leaves heard {answer.error_code}")

    def frames(self) -> list[bytes]:
        """Heartbeats of members that have nothing to say, which may be sent again and again."""
        return [frame_of(each.heartbeat(), HEARTBEAT, VERSION) for each in self.all]

    def close(self) -> None:
        """Close the connections; the members stay until their sessions end."""
        for client in self._clients:
            client.close()


def _answer(client: RawClient) -> ConsumerGroupHeartbeatResponse:
    found: Any = codec.decode(
        ConsumerGroupHeartbeatResponse, VERSION, bytes(client.receive()), _HEAD_BYTES
    )[0]
    return found  # type: ignore[no-any-return]


def _is_settled(members: Collection[Member], partitions: int) -> bool:
    counts = [each.count for each in members]
    return (
        not any(each.has_news or not each.epoch for each in members)
        and len({each.epoch for each in members}) == 1
        and sum(counts) == partitions
        and max(counts) - min(counts) <= 1
    )


def answered(address: Address, wanted: Callable[[RawClient], bool]) -> None:
    """Ask a broker that may not be there yet until it answers as is wanted."""
    end = time.perf_counter() + _PATIENCE_S
    while time.perf_counter() < end:
        try:
            client = RawClient(address)
        except OSError:
            time.sleep(0.01)
            continue
        try:
            while not wanted(client):
                time.sleep(0.01)
            return
        except (OSError, ConnectionError):
            time.sleep(0.01)
        finally:
            client.close()
    raise RuntimeError("the broker does not answer as it should")


def paced(
    address: Address,
    frames: Sequence[bytes],
    per_s: int,
    count: int,
    connections: int,
    error_at: int,
) -> list[float]:
    """Send frames in turn, so many a second, over connections in turn; the milliseconds from when
    each was due until its answer. RuntimeError if an answer has an error.
    """
    sockets = [socket.create_connection(address, timeout=60) for _ in range(connections)]
    waiting: dict[int, deque[float]] = {each.fileno(): deque() for each in sockets}
    unread: dict[int, bytes] = dict.fromkeys(waiting, b"")
    for each in sockets:
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    by_number = {each.fileno(): each for each in sockets}
    latencies: list[float] = []
    turns, sent, begun = cycle(zip(cycle(sockets), frames, strict=False)), 0, time.perf_counter()
    while len(latencies) < count:
        now = time.perf_counter()
        while sent < count and (due := begun + sent / per_s) <= now:
            to, frame = next(turns)
            waiting[to.fileno()].append(due)
            to.sendall(frame)
            sent += 1
        pause = max(0.0, begun + sent / per_s - now) if sent < count else 1.0
        # epoll would pause for whole milliseconds, in which several become due, and late.
        for number in select.select(waiting, [], [], pause)[0]:
            unread[number] += by_number[number].recv(1 << 16)
            now = time.perf_counter()
            answers, unread[number] = _whole(unread[number])
            for answer in answers:
                if answer[error_at : error_at + 2] != b"\0\0":
                    raise RuntimeError(f"an answer has an error: {answer[:80].hex()}")
                latencies.append((now - waiting[number].popleft()) * 1000)
    for each in sockets:
        each.close()
    return latencies


def _whole(data: bytes) -> tuple[list[bytes], bytes]:
    """The whole answers, sizes included, and what is left."""
    answers = []
    while len(data) >= 4 and len(data) >= (size := 4 + int.from_bytes(data[:4], "big")):
        answers.append(data[:size])
        data = data[size:]
    return answers, data
