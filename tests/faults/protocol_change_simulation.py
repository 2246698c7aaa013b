"""A group that changes from the classic protocol to that of KIP-848 and back, in one process, under
one seed: members of both protocols come, leave, vanish, and replace each other, over a line that
loses, while the coordinator's log refuses, delays and forgets to confirm, and its broker is killed.

    python -m tests.faults.protocol_change_simulation --seeds 1-3000
    python -m tests.faults.protocol_change_simulation --seeds 17 --trace

Laws: no partition has two owners; the group is of the kind that the log says, with the same
contents; an answer rests on what is stored; left alone, every member reads its share, and the group
is a consumer group as long as somebody speaks the new protocol, and classic if nobody does.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from random import Random
from typing import Any

from kbroker.coordinator.consumer_group.member import each_partition
from kbroker.coordinator.consumer_group.replay import ConsumerGroupReplay
from kbroker.coordinator.group.replay import GroupReplay
from kbroker.coordinator.group_kinds import CLASSIC, CONSUMER
from kbroker.coordinator.runtime.timeline import Timeline
from kbroker.errors import ErrorCode
from kbroker.record.record_batch import read_header, records
from tests.fakes.brokers.consumer_groups import Settings, consumer_groups
from tests.fakes.brokers.group_broker import GroupBroker, OffsetsLog
from tests.fakes.running.virtual_time import VirtualTime
from tests.faults.group_replicas import FickleReplicas
from tests.faults.protocol_change_clients import GROUP, Classic, New, Process
from tests.faults.seeded_histories import SeededHistories

_STEPS = 80
_PARTITIONS = 4  # of topic t
_TURNS = 4
_CALM_ROUNDS = 60
_MOST = 5  # processes at a time
_SERVED = consumer_groups(Settings(), migration_policy="bidirectional")


class History:
    """One seed."""

    def __init__(self, seed: int, *, is_told: bool = False) -> None:
        self.random = Random(f"change/{seed}")
        self._is_told = is_told
        self.time = VirtualTime()
        self.processes: list[Process] = []
        self._is_cooperative = self.random.random() < 0.5
        self._loss = 0.08
        self._made = 0
        self._lead(OffsetsLog())

    async def run(self) -> None:
        """Play it. AssertionError where a law is broken."""
        for _ in range(_STEPS):
            happens = self.random.choices(
                (self._come, self._act, self._wake, self._pass_time, self._leave, self._vanish,
                 self._kill),
                (10, 70, 16, 6, 6, 2, 1.2),
            )[0]  # fmt: skip
            happens()
            await self._settle()
            self.check()
        await self._come_to_rest()

    # ---- brokers

    def _lead(self, log: OffsetsLog) -> None:
        self.replicas = FickleReplicas(self.random)
        self.broker = GroupBroker(lead=False, time=self.time, consumer_groups=_SERVED)
        self._made += 1
        self.broker.ids = self._made * 1_000_000
        self.broker.replicas.append_records = self.replicas.append_records  # type: ignore[method-assign]
        self.broker.replicas.logs = self.replicas.logs
        self.broker.lead(log)

    def _kill(self) -> None:
        """kill -9: another broker leads with the whole log, or with what was confirmed."""
        log = self.broker.log()
        data = bytes(log.data)
        if self.random.random() < 0.5:
            data = data[: _position(data, log.high_watermark)]
        self.tell(f"kill -9, {len(data)} of {len(log.data)} bytes are left")
        for each in self.processes:
            each.pending = None
        self.broker.groups.shutdown()
        self._lead(OffsetsLog(data))

    def _wake(self) -> None:
        self.replicas.wake()

    def _pass_time(self) -> None:
        self.time.advance(self.random.choice((500, 1_000, 3_000, 8_000, 12_000, 25_000)))

    # ---- processes

    @property
    def live(self) -> list[Process]:
        return [each for each in self.processes if not each.is_gone]

    def _free(self) -> Process | None:
        free = [each for each in self.live if each.pending is None]
        return self.random.choice(free) if free else None

    def _come(self) -> None:
        if len(self.live) >= _MOST:
            return
        number = len(self.processes) + 1
        instance_id = self.random.choice((None, None, "i1", "i2"))
        process: Process
        if self.random.random() < 0.5:
            process = New(f"new{number}", instance_id, member_id=f"m{number}")
        else:
            process = Classic(f"classic{number}", instance_id)
            process.is_cooperative = self._is_cooperative
            process.count = _PARTITIONS
        for other in self.live:  # a static member runs once: the one before it has been stopped
            if instance_id is not None and other.instance_id == instance_id:
                other.is_gone, other.has = True, set()
                if isinstance(other, New) and self.random.random() < 0.8:
                    _future(other.away(self.broker.groups))
        self.processes.append(process)
        self.tell(f"{process.name} comes, {instance_id}")

    def _act(self) -> None:
        process = self._free()
        if process is not None:
            self._send(process)

    def _send(self, process: Process) -> None:
        if isinstance(process, New) and self.random.random() < 0.7:
            process.begin()
        if self.random.random() < self._loss:
            return
        self._note_who_is_forgotten(process)
        process.pending = _future(process.send(self.broker.groups))

    def _note_who_is_forgotten(self, process: Process) -> None:
        found = self.broker.groups.store.find(GROUP)
        if isinstance(process, Classic) and process.phase == "join" and found is not None:
            is_known = process.member_id in found.group.members
            process.is_forgotten = process.is_forgotten or not is_known

    def _leave(self) -> None:
        process = self._free()
        if process is not None and process.member_id:
            self.tell(f"{process.name} leaves")
            process.is_gone, process.has = True, set()
            _future(process.leave(self.broker.groups))

    def _vanish(self) -> None:
        process = self._free()
        if process is not None:
            self.tell(f"{process.name} vanishes")
            process.is_gone, process.has = True, set()

    async def _settle(self) -> None:
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        for process in self.processes:
            if process.pending is None or not process.pending.done():
                continue
            answer, process.pending = process.pending.result(), None
            if process.is_gone or self.random.random() < self._loss:
                continue
            self.tell(f"{process.name} in {process.epoch}: {_short(answer)}")
            process.take(answer)
            self._is_stored(process, answer)

    # ---- laws

    def _is_stored(self, process: Process, answer: Any) -> None:
        """A member of a consumer group that was answered is in the log in that epoch or later."""
        if isinstance(answer, ErrorCode) or answer.error_code or process.epoch < 0:
            return
        kind, group = self._in_log(confirmed=True)
        member = group.members.get(process.member_id) if kind == CONSUMER else None
        if isinstance(process, New) and member is not None and member.epoch >= 0:
            assert member.epoch >= process.epoch, f"{process.name} was answered {process.epoch}"

    def _in_log(self, *, confirmed: bool) -> tuple[str, Any]:
        """The group as the log has it; no kind if there is none."""
        log = self.broker.log()
        replay = GroupReplay(Timeline(), ConsumerGroupReplay)
        position, end = 0, log.high_watermark if confirmed else log.log_end_offset
        while position < len(log.data):
            header = read_header(log.data, position)
            if header.next_offset > end:
                break
            for record in records(log.data, position):
                replay.record(record.key, record.value, header.base_offset, None)
            position += header.size_bytes
        for group, _ in replay.consumer_groups():
            return CONSUMER, group
        for classic in replay.groups():
            return CLASSIC, classic
        return "", None

    def check(self) -> None:
        """Hold the moment against the laws."""
        found = self.broker.groups.store.find(GROUP)
        shard = self.broker.groups.store.runtime.shard_for(GROUP)
        if shard.next_offset == shard.log.log_end_offset:
            kind, group = self._in_log(confirmed=False)
            if kind == CONSUMER or (found is not None and found.kind == CONSUMER):
                assert found is not None, "the group is lost"
                assert found.kind == kind, f"a {found.kind} group, {kind or 'none'} in the log"
                assert _summary(found.group) == _summary(group), "memory is not what the log says"
        if found is not None:
            self._one_owner(found)

    def _one_owner(self, found: Any) -> None:
        readers: dict[int, str] = {}
        for process in self.live:
            if not self._counts(found, process):
                continue
            for each in process.has:
                other = readers.setdefault(each, process.name)
                assert other == process.name, f"{each} is read by {other} and {process.name}"
        if found.kind == CONSUMER:
            owners: dict[Any, str] = {}
            for member in found.group.members.values():
                for place in (*each_partition(member.assigned), *each_partition(member.revoking)):
                    other = owners.setdefault(place, member.member_id)
                    assert other == member.member_id, f"{place} of two members"

    def _counts(self, found: Any, process: Process) -> bool:
        """Whether a process is a member in its epoch: one that was removed does not know yet, nor
        does a cooperative one that a consumer group lets in again under its id, as Kafka does,
        until SyncGroup says what it has.
        """
        if isinstance(process, Classic) and process.is_forgotten:
            return False
        if found.kind == CONSUMER:
            member = found.group.members.stored(process.member_id)
            return member is not None and process.epoch == member.epoch
        member = found.group.members.get(process.member_id)
        return member is not None and process.epoch == found.group.generation_id

    # ---- the end

    async def _come_to_rest(self) -> None:
        self.tell("calm")
        self._loss, self.replicas.is_calm = 0.0, True
        for _ in range(_CALM_ROUNDS):
            while self.replicas.wake():
                await self._settle()
            self.broker.log().confirm()  # what nobody waited for any more
            for process in self.live:
                if process.pending is None:
                    if isinstance(process, New):
                        process.begin()
                    self._note_who_is_forgotten(process)
                    process.pending = _future(process.send(self.broker.groups))
                    await self._settle()
            self.check()
            self.time.advance(3_000)
            await self._settle()
        self._is_at_rest()

    def _is_at_rest(self) -> None:
        live = self.live
        found = self.broker.groups.store.find(GROUP)
        if not live:
            assert found is None or not found.member_count, "a member is nobody"
            return
        is_new = any(isinstance(each, New) for each in live)
        assert found.kind == (CONSUMER if is_new else CLASSIC), f"it is a {found.kind} group"
        assert found.member_count == len(live), f"{found.member_count} members, {len(live)} live"
        assert found.state == "Stable", f"it is {found.state}"
        read = sorted(partition for each in live for partition in each.has)
        assert read == list(range(_PARTITIONS)), f"read are {read}"

    def tell(self, line: str) -> None:
        if self._is_told:
            found = self.broker.groups.store.find(GROUP) if self._made else None
            kind = "" if found is None else f"[{found.kind} {found.state}]"
            print(f"{self.time.monotonic_ms():>9.0f} {kind} {line}")


def _future(outcome: Any) -> Any:
    if inspect.isawaitable(outcome):
        return asyncio.ensure_future(outcome)
    future = asyncio.get_running_loop().create_future()
    future.set_result(outcome)
    return future


def _position(data: bytes, offset: int) -> int:
    """The place of an offset in a log of whole batches."""
    position = 0
    while position < len(data):
        header = read_header(data, position)
        if header.next_offset > offset:
            break
        position += header.size_bytes
    return position


def _summary(group: Any) -> dict[str, Any]:
    return {
        "metadata": group.metadata,
        "target": group.target_metadata,
        "members": dict(group.members.items()),
        "targets": {name: dict(target) for name, target in group.targets.items()},
        "static": dict(group.static_members.items()),
        "owners": dict(group.owners.items()),
    }


def _short(answer: Any) -> str:
    if isinstance(answer, ErrorCode):
        return f"Heartbeat {answer.name}"
    code = ErrorCode(answer.error_code).name
    shown = {
        name: getattr(answer, name)
        for name in ("member_id", "member_epoch", "generation_id", "leader", "assignment")
        if hasattr(answer, name)
    }
    return f"{type(answer).__name__} {code} {shown}"


async def _run(seed: int, is_told: bool) -> None:
    await History(seed, is_told=is_told).run()


HISTORIES = SeededHistories("tests.faults.protocol_change_simulation", _run)

if __name__ == "__main__":
    sys.exit(HISTORIES.main())
