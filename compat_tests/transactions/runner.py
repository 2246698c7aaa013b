"""Runs sequences against a broker: one connection for each, many side by side."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from compat_tests.clients.raw_connection import ClosedError, SilenceError
from compat_tests.running.waiting import until
from compat_tests.transactions.actors import Actors
from compat_tests.transactions.requests import (
    DESCRIBE_PRODUCERS,
    DESCRIBE_TRANSACTIONS,
    GROUP,
    TRANSACTION,
    Requests,
)
from compat_tests.transactions.script import NOT_SERVED, Answers, Sequence, Step
from compat_tests.transactions.texts import codes, text_of
from compat_tests.wire.wire_client import (
    DELETE_TOPICS,
    FIND_COORDINATOR,
    HEARTBEAT,
    INIT_PRODUCER_ID,
    OFFSET_FETCH,
    PRODUCE,
    Ranges,
    WireClient,
    served,
)

_AT_ONCE = 16
_SILENCE_S = 20.0
_PAUSE_S = 0.02
_PATIENCE_S = 15.0
# What clients ask again after: loading and moving coordinators, and a transaction that is ending.
_RETRIED_LONG = {14, 15, 16, 51}
_RETRIED = {6, 19}  # so is Produce answered while a transaction is ending
_RETRIED_FOR_S = 2.5
_OF_GROUPS = {"offset-fetch", "offset-delete", "delete-group"}
_UNSTABLE = 88
_WARM_UP = "warm-up"


def run_all(
    bootstrap: str, sequences: Iterable[Sequence], at_once: int = _AT_ONCE, run: str = ""
) -> dict[str, Answers]:
    """{title: answers}, in the order given; `at_once` of them run side by side. The names of all
    that they make begin with `run`.
    """
    run = run or uuid.uuid4().hex[:6]
    ranges = served(bootstrap)
    with ThreadPoolExecutor(at_once) as pool:
        asked = {
            each.title: pool.submit(_run_one, bootstrap, each, f"{run}.{number}.", ranges)
            for number, each in enumerate(sequences)
        }
        return {title: future.result() for title, future in asked.items()}


def warm_up(bootstrap: str) -> None:
    """Have a broker make its internal topics, and wait until both coordinators serve, wherever they
    are.
    """
    for kind in (GROUP, TRANSACTION):
        until(lambda: _coordinator_serves(bootstrap, kind), f"coordinators of type {kind} serve")  # noqa: B023


def _coordinator_serves(bootstrap: str, kind: int) -> bool:
    client = WireClient(bootstrap)
    answer = client.call(FIND_COORDINATOR, 4, key_type=kind, coordinator_keys=[_WARM_UP])
    client.close()
    (found,) = answer.coordinators
    if found.error_code.value:
        return False
    client = WireClient(f"{found.host}:{found.port}")
    if kind == GROUP:
        said = client.call(HEARTBEAT, 3, group_id=_WARM_UP, generation_id=1, member_id="x")
    else:
        said = client.call(
            INIT_PRODUCER_ID, 1, transactional_id=_WARM_UP, transaction_timeout=1_000
        )
    client.close()
    return said.error_code.value not in _RETRIED_LONG


def _run_one(bootstrap: str, sequence: Sequence, prefix: str, ranges: Ranges) -> Answers:
    player = Player(bootstrap, prefix, ranges)
    try:
        return tuple((step.line, player.play(step)) for step in sequence.steps)
    except Exception as error:
        error.add_note(f"in the sequence {sequence.title!r}")
        raise
    finally:
        player.close()


def _asks_again(found: set[int], waited_s: float) -> bool:
    if found & _RETRIED_LONG:
        return waited_s < _PATIENCE_S
    return bool(found & _RETRIED) and waited_s < _RETRIED_FOR_S


class Player:
    """Plays the steps of one sequence."""

    def __init__(self, bootstrap: str, prefix: str, ranges: Ranges | None = None) -> None:
        self._bootstrap = bootstrap
        self._ranges = served(bootstrap) if ranges is None else ranges
        self._client = WireClient(bootstrap, _SILENCE_S)
        self._actors = Actors(prefix, bootstrap)
        self._requests = Requests(self._actors, self._client)
        self._is_ended = False

    def close(self) -> None:
        self._client.close()
        self._actors.close()

    def move(self, bootstrap: str) -> None:
        """Go on with another broker over the same data."""
        self._bootstrap, self._ranges = bootstrap, served(bootstrap)
        self._reconnect()

    def play(self, step: Step) -> str:
        """The answer as text."""
        own = _WITHOUT_REQUEST.get(step.verb)
        return self._ask(step) if own is None else own(self, step)

    def _ask(self, step: Step) -> str:
        key, version, fields = self._requests.build(step)
        if step.verb in _OF_GROUPS and self._is_ended:
            self._await_stable(step.words[0])
        low, high = self._ranges.get(key, (0, -1))
        if not low <= version <= high:
            return NOT_SERVED
        if key == PRODUCE and fields["acks"] == 0:
            self._client.send(key, version, **fields)
            return "no answer is awaited"
        try:
            answer = self._call(key, version, fields, once=step.once)
        except (ClosedError, SilenceError) as error:
            self._reconnect()
            return type(error).__name__
        self._learn(step, fields, answer)
        if step.verb == "end" and not step.once and answer.error_code.value == 0:
            self._is_ended = True
            return text_of(self._actors, answer) + self._settled(fields["transactional_id"])
        return text_of(self._actors, answer)

    def _call(self, key: int, version: int, fields: dict[str, Any], *, once: bool) -> Any:
        begin = time.monotonic()
        while True:
            answer = self._client.call(key, version, **fields)
            found, waited_s = set(codes(answer)), time.monotonic() - begin
            if once or not _asks_again(found, waited_s):
                return answer
            time.sleep(_PAUSE_S)

    def _settled(self, transactional_id: str) -> str:
        """An end is answered when it is decided: wait until it is written everywhere."""
        asked = [transactional_id]
        deadline = time.monotonic() + _PATIENCE_S
        while DESCRIBE_TRANSACTIONS in self._ranges:
            answer = self._client.call(DESCRIBE_TRANSACTIONS, 0, transactional_ids=asked)
            if not answer.transaction_states[0].transaction_state.startswith("Prepare"):
                break
            if time.monotonic() > deadline:
                return ", and never ends"
            time.sleep(_PAUSE_S)
        return ""

    def _await_stable(self, group: str) -> None:
        """A group hears of the end a moment after all markers are written."""
        asked = {"group_id": self._actors.name_on_broker(group), "topics": None}
        deadline = time.monotonic() + _RETRIED_FOR_S
        while _UNSTABLE in codes(self._client.call(OFFSET_FETCH, 7, require_stable=True, **asked)):
            if time.monotonic() > deadline:
                return  # another transaction is open
            time.sleep(_PAUSE_S)

    def _reconnect(self) -> None:
        self._client.close()
        self._client = WireClient(self._bootstrap, _SILENCE_S)
        self._requests = Requests(self._actors, self._client)

    def _learn(self, step: Step, fields: dict[str, Any], answer: Any) -> None:
        """Keep what a client keeps of an answer."""
        if step.verb in ("init", "end") and getattr(answer, "producer_id", -1) >= 0:
            self._actors.name_id(answer.producer_id, step.words[0])
            self._actors.producer(step.words[0]).became(answer.producer_id, answer.producer_epoch)
        if step.verb == "produce" and step.words[0] != "-" and "sequence" not in step.options:
            producer = self._actors.producer(step.words[0])
            for topic in answer.responses:
                for part in topic.partition_responses:
                    if part.error_code.value == 0:
                        place = (topic.name, part.index)
                        count = int(step.options.get("count", "1"))
                        producer.sequences[place] = producer.sequences.get(place, 0) + count

    # ---- steps that are no request of their own

    def _topic(self, step: Step) -> str:
        self._actors.make_topic(step.words[0], self._client, dict(step.options))
        return "made"

    def _delete_topic(self, step: Step) -> str:
        name = self._actors.topic(step.words[0], self._client)
        answer = self._client.call(DELETE_TOPICS, 5, topic_names=[name], timeout=10_000)
        self._actors.forget_topic(step.words[0])
        until(lambda: self._client.metadata(name).error_code.value == 3, f"{name} is gone")
        return text_of(self._actors, answer)

    def _join(self, step: Step) -> str:
        self._actors.join(step.words[0], step.options.get("instance"))
        return "joined"

    def _leave(self, step: Step) -> str:
        return self._actors.member(step.words[0]).leave()

    def _until(self, step: Step) -> str:
        """Wait until a transaction is in one of some states, or has an error."""
        name, wanted = step.words
        self._is_ended = True
        asked = [self._actors.producer(name).transactional_id]
        return self._wait_for(
            set(wanted.split(",")),
            lambda: self._client.call(DESCRIBE_TRANSACTIONS, 0, transactional_ids=asked),
            lambda answer: {
                answer.transaction_states[0].transaction_state,
                answer.transaction_states[0].error_code.name.upper(),
            },
        )

    def _until_past(self, step: Step) -> str:
        """Wait until the clock is past the start of a transaction, by a millisecond at least."""
        asked = [self._actors.producer(step.words[0]).transactional_id]
        return self._wait_for(
            {"past"},
            lambda: self._client.call(DESCRIBE_TRANSACTIONS, 0, transactional_ids=asked),
            lambda answer: {
                "past"
                if answer.transaction_states[0].transaction_start_time < time.time() * 1000 - 1
                else "now"
            },
        )

    def _until_forgotten(self, step: Step) -> str:
        """Wait until a log remembers no producer."""
        _, _, fields = self._requests.build(Step(step.line, "producers", False, 0, step.words, {}))
        return self._wait_for(
            {"forgotten"},
            lambda: self._client.call(DESCRIBE_PRODUCERS, 0, **fields),
            lambda answer: {
                "remembered" if part.active_producers else "forgotten"
                for topic in answer.topics
                for part in topic.partitions
            },
        )

    def _wait_for(self, wanted: set[str], ask: Any, seen: Any) -> str:
        if DESCRIBE_TRANSACTIONS not in self._ranges or DESCRIBE_PRODUCERS not in self._ranges:
            return NOT_SERVED
        deadline = time.monotonic() + _PATIENCE_S
        while not wanted & (found := seen(ask())):
            if time.monotonic() > deadline:
                return f"not reached: {sorted(found)}"
            time.sleep(_PAUSE_S)
        return "reached"


_WITHOUT_REQUEST = {
    "topic": Player._topic,
    "delete-topic": Player._delete_topic,
    "join": Player._join,
    "leave": Player._leave,
    "until": Player._until,
    "until-past": Player._until_past,
    "until-forgotten": Player._until_forgotten,
}
