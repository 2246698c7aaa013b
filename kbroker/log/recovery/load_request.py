"""The arguments by which a log is opened. Values only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kbroker.config.topic_config import TopicConfig
from kbroker.model import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class LoadRequest:
    """A log to open, and what the checkpoints of its data directory say about it."""

    topic_partition: TopicPartition
    directory: str
    config: TopicConfig
    now_ms: int
    recovery_point: int = 0
    log_start_offset: int = 0
    cleaned_offset: int = 0  # up to where the cleaner came
    gapless_from: int | None = None  # no gaps from here on; None: there may be some anywhere
    was_clean: bool = False
    on_recovered: Callable[[int], None] = lambda _: None  # size of each batch; may raise to stop
