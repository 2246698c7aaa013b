"""Quotas that a test gives a broker, in the words of `kbroker quota set`."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing

from kbroker.client.client_quotas import altered_quotas
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.quota_words import QuotaWish, wish_in


def wishes_in(lines: Iterable[str]) -> list[QuotaWish]:
    """Read `--user ann producer=1MB/s` and the like. Raises ValueError."""
    if isinstance(lines, str):
        raise ValueError(f"quotas are given as a list of lines: [{lines!r}]")
    return [wish_in(line) for line in lines]


def set_quotas(bootstrap: str, wishes: Iterable[QuotaWish]) -> None:
    """Have a running broker keep them. Raises ExplainedError, KafkaError and OSError."""
    with closing(ClusterLinks(bootstrap)) as links:
        for refusal in altered_quotas(links, wishes):
            if refusal is not None:
                raise refusal
