"""Requests that somebody follows, and those that are logged because they were slow. A broker that
is asked for neither loads nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from kbroker.apis.kafka_apis import KafkaApis
from kbroker.apis.request_counters import RequestStats
from kbroker.clock import Clock
from kbroker.config.kafka_config import KafkaConfig
from kbroker.network.request_handler_pool import Handle, KafkaRequestHandlerPool

if TYPE_CHECKING:
    from kbroker.apis.request_tracer import RequestTracer

TopicName = Callable[[UUID], str | None]


class FollowedRequests:
    """The requests of one broker, for those who follow them. Owned by the broker's loop."""

    def __init__(
        self, apis: KafkaApis, pool: KafkaRequestHandlerPool, clock: Clock, topic_name: TopicName
    ) -> None:
        """`topic_name` says which topic has an id."""
        self._apis = apis
        self._pool = pool
        self._clock = clock
        self._topic_name = topic_name
        self._tracer: RequestTracer | None = None

    def tracer(self) -> RequestTracer:
        """Return what readers are opened at, made for the first one."""
        from kbroker.apis.request_tracer import RequestTracer

        if self._tracer is None:
            self._tracer = RequestTracer(self._clock, self._topic_name, self._switch)
        return self._tracer

    def _switch(self, is_on: bool) -> None:
        tracer = self._tracer
        assert tracer is not None, "it calls this"
        self._apis.follow(tracer if is_on else None)
        handle: Handle = self._apis.handle
        if is_on:
            handle = partial(tracer.handle, self._apis.handle)
        self._pool.use(handle, takes_short_ways=not is_on)


def watch_for_slow(
    stats: RequestStats, config: KafkaConfig, clock: Clock, topic_name: TopicName
) -> None:
    """Have slow requests logged, if the settings say what is slow."""
    slow_ms = config.kbroker.kbroker_slow_request_ms
    if slow_ms < 0:
        return
    from kbroker.apis.slow_requests import SlowRequests

    slow = SlowRequests(clock, slow_ms, topic_name)
    stats.watch(slow.slow_ns, slow.tell)
