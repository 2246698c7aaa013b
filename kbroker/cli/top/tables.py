"""The tables of `kbroker top`: which columns they have, what these say, and what they sort by.
Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kbroker.cli.top.figures import UNKNOWN, amount, exact, inert, size, time_text
from kbroker.console.rates import BrokerRate, GroupRate, Pace, TopicRate

NAME_LEAST: Final = 20  # columns of the terminal that a name gets, before others are left out
Connection = Mapping[str, Any]

_PACES: Final = {
    Pace.CAUGHT_UP: "caught up",
    Pace.KEEPING_UP: "keeps up",
    Pace.CATCHING_UP: "",
    Pace.UNKNOWN: "not yet known",
    Pace.FALLING_BEHIND: "falls behind",
    Pace.STANDING: "stands still",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column; `value` is what it sorts by, None if that is not known; numbers stand at the right
    and sort from the largest on. `width` has room for the head with a mark.
    """

    head: str
    width: int
    value: Callable[[Any], Any]
    text: Callable[[Any], str]
    is_number: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table. Its first column is the name of a row, and as wide as there is room; the others come
    in the order in which they are left out, from the last on, if there is not. `sorts_by` is the
    number of a column.
    """

    title: str
    columns: tuple[Column, ...]
    sorts_by: int = 1

    def name_of(self, row: Any) -> str:
        """Return the name of a row, as its broker gave it."""
        return str(self.columns[0].value(row))

    def visible(self, width: int) -> tuple[Column, ...]:
        """Return the columns for which a terminal of this width has room; two at the least."""
        shown = list(self.columns)
        while len(shown) > 2 and width - _taken(shown) < NAME_LEAST:
            shown.pop()
        return tuple(shown)

    def ordered(self, rows: Sequence[Any], sorts_by: int, *, is_reversed: bool) -> list[Any]:
        """Return rows in the order of a column; those without a value come last."""
        column = self.columns[sorts_by]
        known = [(column.value(row), row) for row in rows]
        unknown = [row for value, row in known if value is None]
        known = [each for each in known if each[0] is not None]
        known.sort(key=lambda each: each[0], reverse=column.is_number is not is_reversed)
        return [row for _, row in known] + unknown

    def found(self, rows: Sequence[Any], text: str) -> Sequence[Any]:
        """Return the rows whose names hold a text, whatever its case."""
        wanted = text.casefold()
        return [row for row in rows if wanted in self.name_of(row).casefold()] if text else rows


def _taken(columns: Sequence[Column]) -> int:
    return sum(column.width + 2 for column in columns[1:])


def _named(head: str, value: Callable[[Any], str]) -> Column:
    return Column(
        head=head,
        width=NAME_LEAST,
        value=value,
        text=lambda row: inert(value(row)),
        is_number=False,
    )


def _number(
    head: str,
    width: int,
    value: Callable[[Any], float | None],
    text: Callable[[float | None], str] = amount,
) -> Column:
    return Column(head=head, width=width, value=value, text=lambda row: text(value(row)))


def _words(head: str, width: int, value: Callable[[Any], str | None]) -> Column:
    return Column(
        head=head,
        width=width,
        value=value,
        text=lambda row: inert(value(row) or UNKNOWN),
        is_number=False,
    )


def _ill(row: TopicRate) -> int:
    return row.topic.leaderless or row.topic.under_replicated


def _topic_state(row: TopicRate) -> str:
    if row.topic.leaderless:
        return f"{row.topic.leaderless} leaderless"
    return f"{row.topic.under_replicated} not in sync" if row.topic.under_replicated else "fine"


def _pace(row: GroupRate) -> tuple[int, float]:
    """Return what groups sort by: how far they are from having caught up."""
    return list(Pace).index(row.pace), row.catch_up_s or 0.0


def _pace_text(row: GroupRate) -> str:
    return _PACES[row.pace] or f"in {time_text(row.catch_up_s or 0.0)}"


def _broker_state(row: BrokerRate) -> str:
    if row.broker.silent is not None:
        return "no answer"
    return "controller" if row.broker.is_controller else "fine"


def _most_behind(row: GroupRate) -> str | None:
    return None if row.most_behind is None else str(row.most_behind)


def _apis(row: Connection) -> str:
    return ", ".join(f"{name} {version}" for name, version in row["apis"].items())


def _idle_s(row: Connection) -> float:
    return float(row["idle_ms"]) / 1000


TOPICS: Final = Table(
    title="Topics",
    columns=(
        _named("TOPIC", lambda row: row.topic.name),
        _number("RECORDS/S", 10, lambda row: row.records_per_s),
        _number("BYTES/S", 8, lambda row: row.bytes_per_s, size),
        _number("SIZE", 8, lambda row: row.size_bytes, size),
        _number("PARTS", 6, lambda row: row.topic.partitions),
        Column(head="STATE", width=13, value=_ill, text=_topic_state),
    ),
)
GROUPS: Final = Table(
    title="Groups",
    columns=(
        _named("GROUP", lambda row: row.group.name),
        _number("LAG", 9, lambda row: row.lag, exact),
        Column(head="CATCHES UP", width=13, value=_pace, text=_pace_text),
        _number("READ/S", 8, lambda row: row.read_per_s),
        _number("MEMBERS", 8, lambda row: row.group.members),
        _words("STATE", 10, lambda row: row.group.state),
        _number("WRITTEN/S", 10, lambda row: row.written_per_s),
        _words("MOST BEHIND", 24, _most_behind),
    ),
)
BROKERS: Final = Table(
    title="Brokers",
    columns=(
        _named("BROKER", lambda row: f"{row.broker.broker_id} {row.broker.host}:{row.broker.port}"),
        _number("RECORDS/S", 10, lambda row: row.records_per_s),
        _number("BYTES/S", 8, lambda row: row.bytes_per_s, size),
        _number("SIZE", 8, lambda row: row.size_bytes, size),
        _number("LEADERS", 8, lambda row: row.leaders),
        _words("STATE", 10, _broker_state),
        _number("REPLICAS", 9, lambda row: row.broker.replicas),
        _words("RACK", 12, lambda row: row.broker.rack),
    ),
)
CONNECTIONS: Final = Table(
    title="Connections",
    columns=(
        _named("CLIENT", lambda row: str(row["client_id"] or UNKNOWN)),
        _number("REQUESTS", 9, lambda row: row["requests"]),
        _number("IDLE", 7, _idle_s, lambda seconds: time_text(seconds or 0.0)),
        _words("ADDRESS", 21, lambda row: row["address"]),
        _words("SOFTWARE", 14, lambda row: row["software"]),
        _number("BYTES IN", 9, lambda row: row["bytes_in"], size),
        _number("BYTES OUT", 10, lambda row: row["bytes_out"], size),
        _words("ASKS FOR", 24, _apis),
        _words("LISTENER", 12, lambda row: row["listener"]),
    ),
)
TABLES: Final = (TOPICS, GROUPS, BROKERS, CONNECTIONS)
