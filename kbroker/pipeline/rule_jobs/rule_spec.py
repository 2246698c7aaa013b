"""The content of a rules file as values. Times are in microseconds, as Spark counts them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

RECORD_COLUMNS = {
    "_key": "STRING",
    "_topic": "STRING",
    "_partition": "INT",
    "_offset": "BIGINT",
    "_timestamp": "TIMESTAMP",
    "_time": "TIMESTAMP",
}
"""What the rows of an input have besides the columns of their schema; `_time` is the event's."""
WINDOW_COLUMNS = ("window_start", "window_end")


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSpec:
    """Records of some topics, as rows."""

    name: str
    topics: tuple[str, ...]
    columns: Mapping[str, str]  # name -> type in Spark's DDL, with NOT NULL if it is required
    pattern: str | None  # of text; None: JSON
    time: str | None  # column of the event's time
    watermark_us: int | None  # how much later than others an event may come; None: any time
    ahead_us: int  # how far the time of an event may be after now, if there is a watermark
    idle_us: int  # how long a partition without records holds the watermark back
    dedupe: tuple[str, ...]
    broken: str  # topics for rows that are put aside
    late: str

    @property
    def schema(self) -> str:
        return ", ".join(f"`{name}` {kind}" for name, kind in self.columns.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSpec:
    """Rows to join with: a file, or a topic with the newest record of each key."""

    name: str
    path: str | None
    topic: str | None
    form: str  # csv, json or parquet
    columns: Mapping[str, str]
    reload_us: int

    @property
    def schema(self) -> str:
        return ", ".join(f"`{name}` {kind}" for name, kind in self.columns.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSpec:
    """One rule: `sql`, or the parts that `rule_sql` makes SQL of."""

    name: str
    sources: tuple[str, ...]  # inputs, or rules before this one
    sql: str | None = None
    where: str | None = None
    join: str | None = None
    by: tuple[str, ...] = ()
    select: Mapping[str, str] = field(default_factory=dict)  # column -> expression
    having: str | None = None
    window_us: int | None = None
    slide_us: int | None = None  # as the window, where windows do not overlap
    is_update: bool = False  # keeps a row for each key
    to: str | None = None
    key: tuple[str, ...] = ()
    points: Mapping[str, str] = field(default_factory=dict)  # score -> expression


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreSpec:
    """Points of several rules, summed by key and window."""

    name: str
    by: str
    threshold: float
    to: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSpec:
    """How an output topic is made if it is missing; -1 leaves a number to the cluster."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesSpec:
    """A whole file. Each map is by name, in the order of the file."""

    name: str
    inputs: Mapping[str, InputSpec]
    tables: Mapping[str, TableSpec]
    rules: Mapping[str, RuleSpec]
    scores: Mapping[str, ScoreSpec]
    topics: Mapping[str, TopicSpec]

    def output_topics(self) -> dict[str, TopicSpec]:
        """Return all topics that are written to, in the order of the file."""
        names = [rule.to for rule in self.rules.values() if rule.to]
        names += [score.to for score in self.scores.values()]
        names += [topic for each in self.inputs.values() for topic in (each.broken, each.late)]
        return {name: self.topics.get(name) or self._default(name) for name in names}

    def _default(self, name: str) -> TopicSpec:
        kept = any(rule.to == name and rule.is_update for rule in self.rules.values())
        return TopicSpec(name=name, settings={"cleanup.policy": "compact"} if kept else {})

    def place_topic(self) -> str:
        """Return the topic under which the group of the job keeps what was written last: the same
        one in whatever order the file has its inputs.
        """
        return self.inputs[min(self.inputs)].broken

    def shape(self) -> dict[str, str]:
        """Return all that state depends on, by table of the file: state of another is useless."""
        kept: dict[str, tuple[object, ...]] = {}
        for name, each in self.inputs.items():
            said = (each.topics, each.schema, each.pattern, each.time, each.watermark_us)
            kept[f"inputs.{name}"] = (*said, each.dedupe, each.broken, each.late)
        for name, rule in self.rules.items():
            if rule.window_us is not None:
                waits = self.waits_for(rule)
                kept[f"rules.{name}"] = (waits, rule.sources, rule.window_us, rule.slide_us)
            elif rule.is_update:
                rows = (rule.sources, rule.where, rule.join)
                kept[f"rules.{name}"] = (*rows, rule.by, dict(rule.select))
        return {name: repr(said) for name, said in kept.items()}

    def waits_for(self, rule: RuleSpec) -> tuple[str, ...]:
        """Return the inputs whose watermarks decide when a window of the rule is over. Rules of one
        score wait for each other, or their points would never meet.
        """
        names = list(rule.sources)
        for other in self.rules.values():
            if other.points.keys() & rule.points.keys():
                names += other.sources
        return tuple(dict.fromkeys(names))
