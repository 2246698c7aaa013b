"""A client that creates, deletes, grows and reconfigures topics without end, through any broker, and
keeps the model of what must have come of it.

Each change is tried until its outcome is certain: an answer that is lost or late leaves the next
attempt to find out, with the tree in ZooKeeper as the judge of what was done already.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from compat_tests.cluster.model import TOPIC_RESOURCE, UNREACHABLE, Model, ModelTopic
from compat_tests.cluster.processes import Cluster
from compat_tests.wire.wire_client import (
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    INCREMENTAL_ALTER_CONFIGS,
    code,
)

CERTAIN_AFTER_S = 120
REQUEST_TIMEOUT_MS = 10_000
MOST_TOPICS = 25
UNKNOWN_TOPIC, ALREADY_EXISTS, INVALID_PARTITIONS = 3, 36, 37
# REQUEST_TIMED_OUT, NETWORK_EXCEPTION, and what brokers say when ZooKeeper goes away in the middle
# of a change: NOT_CONTROLLER makes clients look for the controller and ask again.
MAYBE_DONE = (-1, 7, 13, 41, 56)
SET, DELETE = 0, 1
CONFIGS = {
    "retention.ms": ("3600000", "7200000", "86400000"),
    "max.message.bytes": ("200000", "300000"),
    "segment.bytes": ("1048576", "2097152"),
}


@dataclass(frozen=True)
class Change:
    """One request, and how to know that an earlier attempt did its work already: the error that then
    comes, and a look into the tree. Only retriable errors may come beside it, and the excused ones.
    """

    kind: str
    key: int
    version: int
    values: dict[str, Any]
    is_done: Callable[[], bool]
    says_done: int = 0
    excused: tuple[int, ...] = ()


class Administrator:
    """A thread that changes topics while it is not `paused`; `model` may be read while it is."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.model: Model = {}
        self.errors: list[str] = []
        self.done: Counter[str] = Counter()
        self.retried: Counter[str] = Counter()
        # Apache Kafka says UNKNOWN_SERVER_ERROR when its session ends in the middle of a change.
        self._excused = (-1,) if "apache" in cluster.kinds.values() else ()
        self._cluster = cluster
        self._draw = random.Random(seed)
        self._names = 0
        self._gone: list[str] = []
        self._may_work = threading.Event()
        self._is_idle = threading.Event()
        self._stop = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def resume(self) -> None:
        """Go on."""
        self._is_idle.clear()
        self._may_work.set()

    def pause(self) -> None:
        """Return when the change under way is certain; no further one is begun."""
        self._may_work.clear()
        assert self._is_idle.wait(CERTAIN_AFTER_S + 30), "a change does not end"

    def finish(self) -> None:
        """End the thread."""
        self.pause()
        self._stop = True
        self._may_work.set()
        self._thread.join(10)

    def _run(self) -> None:
        while True:
            if not self._may_work.is_set():
                self._is_idle.set()
                self._may_work.wait()
            if self._stop:
                return
            try:
                self._change()
            except Exception as error:
                self.errors.append(repr(error))
            time.sleep(0.01)

    def _change(self) -> None:
        kinds: list[Callable[[], None]] = [self._create]
        if self.model:
            kinds += [self._alter, self._alter, self._grow, self._delete]
        if len(self.model) >= MOST_TOPICS:
            kinds = [self._delete]
        self._draw.choice(kinds)()

    # ---- the four changes

    def _create(self) -> None:
        name, is_new = self._new_name()
        partitions = self._draw.randint(1, 4)
        key = self._draw.choice(list(CONFIGS))
        configs = self._draw.choice([{}, {key: self._draw.choice(CONFIGS[key])}])
        topic = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": 1,
            "configs": [{"name": key, "value": value} for key, value in configs.items()],
        }

        def is_done() -> bool:
            # In this order: the node of a topic goes before the wish to delete it.
            is_free = name not in self._being_deleted()
            return is_free and self._cluster.tree.assignment(name) is not None

        # A name that was deleted is free when all its replicas are gone, in Apache Kafka as well.
        excused = () if is_new else (ALREADY_EXISTS,)
        values = {"topics": [topic], "timeout": REQUEST_TIMEOUT_MS}
        self._make_certain(
            Change("create", CREATE_TOPICS, 5, values, is_done, ALREADY_EXISTS, excused)
        )
        self.model[name] = ModelTopic(partitions, configs)

    def _new_name(self) -> tuple[str, bool]:
        """A name, and whether no topic had it yet."""
        if self._gone and self._draw.random() < 0.3:
            return self._gone.pop(self._draw.randrange(len(self._gone))), False
        self._names += 1
        return f"model-{self._names}", True

    def _delete(self) -> None:
        name = self._some_topic()

        def is_done() -> bool:
            return name in self._being_deleted() or name not in self._cluster.tree.topics()

        values = {"topic_names": [name], "timeout": REQUEST_TIMEOUT_MS}
        self._make_certain(Change("delete", DELETE_TOPICS, 5, values, is_done, UNKNOWN_TOPIC))
        del self.model[name]
        self._gone = [*self._gone, name][-5:]

    def _grow(self) -> None:
        name = self._some_topic()
        count = self.model[name].partitions + self._draw.randint(1, 2)

        def is_done() -> bool:
            return len(self._cluster.tree.assignment(name) or {}) == count

        growth = {"name": name, "count": count, "assignments": None}
        values = {"topics": [growth], "timeout": REQUEST_TIMEOUT_MS}
        self._make_certain(
            Change("grow", CREATE_PARTITIONS, 1, values, is_done, INVALID_PARTITIONS)
        )
        self.model[name].partitions = count

    def _alter(self) -> None:
        name = self._some_topic()
        key = self._draw.choice(list(CONFIGS))
        configs = self.model[name].configs
        is_set = key not in configs or self._draw.random() < 0.7
        value = self._draw.choice(CONFIGS[key]) if is_set else None
        entry = {"name": key, "config_operation": SET if is_set else DELETE, "value": value}
        resource = {"resource_type": TOPIC_RESOURCE, "resource_name": name, "configs": [entry]}
        self._make_certain(
            Change("alter", INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [resource]}, lambda: False)
        )
        configs.pop(key, None)
        if value is not None:
            configs[key] = value

    # ---- asking

    def _make_certain(self, change: Change) -> None:
        """Ask brokers until one says that it is done, or that an earlier attempt did it."""
        deadline = time.monotonic() + CERTAIN_AFTER_S
        may_be_done = False
        while time.monotonic() < deadline:
            error = self._ask(change)
            if error is None:
                may_be_done = True
                self.retried[f"{change.kind}: no answer"] += 1
            elif error == 0 or (error == change.says_done and may_be_done and change.is_done()):
                self.done[change.kind] += 1
                return
            else:
                self.retried[f"{change.kind}: {code(error)}"] += 1
                may_be_done = may_be_done or error in MAYBE_DONE
                if not (error.retriable or error in (*change.excused, *self._excused)):
                    self.errors.append(f"{change.kind} {change.values}: {code(error)}")
                    return
            time.sleep(0.05)
        raise AssertionError(f"{change} is not certain after {CERTAIN_AFTER_S} s")

    def _ask(self, change: Change) -> Any:
        """The error of the one item asked for; None when no answer came."""
        number = self._draw.choice(self._cluster.ids)
        if number in self._cluster.paused or not self._cluster.is_running(number):
            return None
        try:
            with self._cluster.wire(number) as wire:
                wire.socket.settimeout(60)
                answer = wire.call(change.key, change.version, **change.values)
        except UNREACHABLE:
            return None
        lists = (getattr(answer, name, ()) for name in ("topics", "results", "responses"))
        return next(rows for rows in lists if rows)[0].error_code

    def _some_topic(self) -> str:
        return self._draw.choice(sorted(self.model))

    def _being_deleted(self) -> list[str]:
        return self._cluster.tree.children("/admin/delete_topics")
