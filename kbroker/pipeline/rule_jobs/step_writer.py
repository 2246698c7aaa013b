"""Writes the records of a step into their topics, in one transaction.

Law: the place that a group keeps (see `client.exactly_once`) has the id of the last step that was
written, so that nobody writes what follows another step than that.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from operator import add
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import ClusterLinks, TopicView
from kbroker.client.exactly_once import OnceOptions, write_once
from kbroker.client.partitioner import partitions_of
from kbroker.client.record_sender import RecordSender
from kbroker.client.transactional_producer import Position, TransactionalProducer
from kbroker.client.wall_clock import unix_now_ms
from kbroker.errors import KafkaError, Trouble
from kbroker.model import TopicPartition
from kbroker.pipeline.cluster_errors import finish
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.restoring.record_encoding import encoded_headers
from kbroker.pipeline.rule_jobs.step_journal import RulesStep
from kbroker.pipeline.rule_jobs.step_outputs import output_rows
from kbroker.record.bulk_records import bodies_of_pairs
from kbroker.record.compression import CODEC_IDS

_TIMEOUT_MS = 300_000  # of a transaction that nobody ends
_PATIENCE_S = 120.0  # with a broker that restarts
_PAUSE_S = 0.5


class StepWriter:
    """`group` is also the transactional id; `place` the partition under which it counts steps."""

    def __init__(
        self,
        bootstrap: str,
        group: str,
        place: TopicPartition,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._bootstrap = bootstrap
        self._group = group
        self._place = place
        self._sleep = sleep

    def write(self, step: RulesStep, path: Path, *, is_new: bool) -> Counter[str]:
        """See that the records of a step are in their topics; return how many each topic got just
        now. `is_new`: it is known that they are not there yet, and those before are.

        Raises PipelineError.
        """
        give_up_s = time.monotonic() + _PATIENCE_S
        while True:
            try:
                with closing(ClusterLinks(self._bootstrap, sleep=self._sleep)) as links:
                    write = partial(self._write, links, step, path, is_new=is_new)
                    return write_once(links, self._options(), write)
            except (OSError, ClientError, KafkaError) as error:
                is_over = time.monotonic() > give_up_s
                if is_over or (isinstance(error, KafkaError) and not error.code.retriable):
                    sentence = getattr(error, "sentence", str(error))
                    raise PipelineError(f"the results cannot be written: {sentence}") from error
            self._sleep(_PAUSE_S)

    def _options(self) -> OnceOptions:
        return OnceOptions(
            transactional_id=self._group,
            group=self._group,
            partition=self._place,
            timeout_ms=_TIMEOUT_MS,
            patience_s=_PATIENCE_S,
            refusals=(PipelineError,),
            give_up=lambda reason: PipelineError(
                f"the results cannot be written: {reason} run have the same checkpoint?)"
            ),
        )

    def _write(
        self,
        links: ClusterLinks,
        step: RulesStep,
        path: Path,
        producer: TransactionalProducer,
        *,
        is_new: bool,
    ) -> Counter[str]:
        position = producer.place
        if position.metadata == step.outputs_id:
            return Counter()
        if position.offset < 0 and step.follows_id and not is_new:
            raise PipelineError(
                f"the cluster no longer knows which results group {self._group} has written (the "
                "job rested longer than offsets.retention.minutes, or the group was deleted): "
                "begin with a new --checkpoint"
            )
        if position.offset >= 0 and position.metadata != step.follows_id:
            raise PipelineError(
                f"results were written that this checkpoint does not know (group {self._group}): "
                "it is a copy, and the job has run on with another one; go on with that one, or "
                "begin with a new --checkpoint",
                trouble=Trouble.CHECKPOINT,
            )
        written = _Transaction(links, producer).write(path)
        producer.commit(Position(step.number + 1, step.outputs_id))
        return written


class _Transaction:
    """The records of one step."""

    def __init__(self, links: ClusterLinks, producer: TransactionalProducer) -> None:
        self._links = links
        self._producer = producer
        self._written: Counter[str] = Counter()
        self._senders: dict[str, RecordSender] = {}  # each counts the records of its partitions
        self._sender: RecordSender | None = None  # the one whose answers are awaited
        self._view: TopicView | None = None
        self._turn = 0  # of records without a key

    def write(self, path: Path) -> Counter[str]:
        for rows in output_rows(path):
            for topic in pc.unique(rows.column("topic")).to_pylist():
                self._put(topic, rows.filter(pc.equal(rows.column("topic"), topic)))
        self._finish()
        return self._written

    def _put(self, topic: str, rows: pa.RecordBatch) -> None:
        if self._view is None or self._view.name != topic:
            self._finish()
            self._begin(topic)
        assert self._view is not None
        assert self._sender is not None
        sender = self._sender
        numbers = sorted(self._view.leaders)
        partitions = self._partitions(rows.column("key").to_pylist(), numbers)
        self._producer.add_partitions(TopicPartition(topic, each) for each in set(partitions))
        now_ms = unix_now_ms()
        bodies = _bodies_of(rows)
        for partition in sorted(set(partitions)):
            chosen = [body for body, at in zip(bodies, partitions, strict=True) if at == partition]
            sender.put(partition, chosen, now_ms)
        sender.send_until(lambda: sender.has_room)
        self._written[topic] += rows.num_rows

    def _partitions(self, keys: Sequence[bytes | None], numbers: list[int]) -> list[int]:
        hashed = iter(partitions_of([key for key in keys if key is not None], len(numbers)))
        return [self._next_turn(numbers) if key is None else next(hashed) for key in keys]

    def _next_turn(self, numbers: list[int]) -> int:
        self._turn += 1
        return numbers[self._turn % len(numbers)]

    def _begin(self, topic: str) -> None:
        view = self._links.ready_topic(topic)
        if view is None:
            raise PipelineError(
                f"topic {topic} is gone: was it deleted while the job ran? The next run makes it"
            )
        self._view = view
        self._sender = self._senders.get(topic) or self._producer.sender(view, CODEC_IDS["lz4"])
        self._senders[topic] = self._sender

    def _finish(self) -> None:
        """Wait for answers, which are of one topic at a time."""
        if self._sender is not None:
            assert self._view is not None
            finish(self._sender, f"topic {self._view.name}")
            self._sender = None


def _bodies_of(rows: pa.RecordBatch) -> list[bytes]:
    """Return the bodies of records, each with its own headers; see `bulk_records`."""
    bodies = bodies_of_pairs(rows.column("key").to_pylist(), rows.column("value").to_pylist())
    return list(map(add, bodies, encoded_headers(rows).to_pylist()))
