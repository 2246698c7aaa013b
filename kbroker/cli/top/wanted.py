"""The rows of a look that a user wants to see. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kbroker.cli.top.look import Look
from kbroker.cli.top.tables import BROKERS, CONNECTIONS, GROUPS, TOPICS, Table
from kbroker.client.consumer_groups import OF_JOBS


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Names that hold `text`, whatever its case; `has_internal`: also topics of the brokers' own,
    and groups of kbroker's jobs.
    """

    text: str = ""
    has_internal: bool = False

    def tables(self, look: Look) -> Iterator[tuple[Table, Sequence[Any]]]:
        """Yield each table with its wanted rows."""
        for table in (TOPICS, GROUPS, BROKERS, CONNECTIONS):
            yield table, self.rows(look, table)

    def rows(self, look: Look, table: Table) -> Sequence[Any]:
        """Return the wanted rows of one table, not sorted."""
        return table.found(self._all(look, table), self.text)

    def _all(self, look: Look, table: Table) -> Sequence[Any]:
        if table is TOPICS:
            return [row for row in look.topics if self.has_internal or not row.topic.is_internal]
        if table is GROUPS:
            return [
                row
                for row in look.groups
                if self.has_internal or not row.group.name.startswith(OF_JOBS)
            ]
        return look.brokers if table is BROKERS else look.connections.rows
