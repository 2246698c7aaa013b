"""Watches a cluster: samples it again and again, and makes rates of the samples."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Final

from kbroker.cli.top.look import NOT_ASKED, Connections, Look, Trouble
from kbroker.client.client_error import ClientError
from kbroker.console.cluster_sample import ClusterSample, cluster_sample
from kbroker.console.consoled_cluster import ConsoledCluster
from kbroker.console.rates import WINDOW_S, broker_rates, group_rates, topic_rates

FIRST_PAUSE_S: Final = 1.0  # until there are rates, nobody wants to wait long
_SHARE: Final = 25  # of the time is computing: a large cluster is looked at more rarely
_MOST_SAMPLES: Final = 32


AskConnections = Callable[[], Connections]
"""Asks the brokers for their connections, on any thread."""


class Watch:
    """The looks at one cluster. Owned by one loop."""

    def __init__(
        self, cluster: ConsoledCluster, interval_s: float, ask_connections: AskConnections | None
    ) -> None:
        self._cluster = cluster
        self._interval_s = interval_s
        self._ask_connections = ask_connections
        self._samples: deque[ClusterSample] = deque(maxlen=_MOST_SAMPLES)

    async def looks(self) -> AsyncIterator[Look | Trouble]:
        """Look every `interval_s` seconds, for ever; what goes wrong is a Trouble, and tried again.

        A look that takes much of the processor is followed by a longer pause.
        """
        while True:
            began_s, computed_s = time.monotonic(), time.process_time()
            seen: Look | Trouble
            try:
                seen = await self.look()
            except ClientError as error:
                seen = Trouble(error.sentence)
            yield seen
            pause_s = self._interval_s if len(self._samples) > 1 else FIRST_PAUSE_S
            took_s = time.monotonic() - began_s
            rest_s = _SHARE * (time.process_time() - computed_s)
            await asyncio.sleep(max(min(pause_s, self._interval_s) - took_s, rest_s, 0.0))

    async def look(self) -> Look:
        """Look once. Raises ClientError."""
        sample = await cluster_sample(self._cluster)
        connections = NOT_ASKED
        if self._ask_connections is not None:
            connections = await asyncio.to_thread(self._ask_connections)
        self._keep(sample)
        before = self._samples[-2] if len(self._samples) > 1 else None
        return Look(
            sample=sample,
            seconds=None if before is None else sample.at_s - before.at_s,
            topics=topic_rates(before, sample),
            groups=group_rates(list(self._samples)),
            brokers=broker_rates(before, sample),
            connections=connections,
        )

    def _keep(self, sample: ClusterSample) -> None:
        samples = self._samples
        if samples and samples[-1].cluster_id != sample.cluster_id:
            samples.clear()  # another cluster has the address now
        samples.append(sample)
        while len(samples) > 2 and samples[1].at_s <= sample.at_s - WINDOW_S:
            samples.popleft()
