"""Parses the text of a rules file into a RulesSpec; refuses what is wrong even without Spark."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from kbroker.pipeline.errors import ExitCode, PipelineError
from kbroker.pipeline.rule_jobs.ddl_columns import ddl_columns
from kbroker.pipeline.rule_jobs.rule_spec import (
    RECORD_COLUMNS,
    WINDOW_COLUMNS,
    InputSpec,
    RuleSpec,
    RulesSpec,
    ScoreSpec,
    TableSpec,
    TopicSpec,
)
from kbroker.pipeline.rule_jobs.toml_table import TomlTable

_TOP = ("name", "inputs", "tables", "rules", "scores", "topics")
_INPUT = (
    "topics", "format", "schema", "pattern", "time", "watermark", "ahead", "idle", "dedupe",
    "broken", "late",
)  # fmt: skip
_TABLE = ("path", "topic", "format", "schema", "reload")
_RULE = (
    "from", "sql", "where", "join", "by", "select", "having", "window", "slide", "emit", "to",
    "key", "points",
)  # fmt: skip
_SCORE = ("by", "threshold", "to")
_FORMS = ("csv", "json", "parquet")
_PARTS = ("where", "join", "by", "select", "having")  # not allowed beside `sql`
_AHEAD_US = 1_000 * 86_400_000_000
_IDLE_US = 30_000_000
_RELOAD_US = 30_000_000
_OF_THE_BROKER = -1


def read_rules(path: Path) -> RulesSpec:
    """Read a rules file; paths of tables are relative to it. Raises PipelineError."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise PipelineError(f"cannot read {path}: {error.strerror}", ExitCode.USAGE) from error
    except UnicodeDecodeError as error:
        raise PipelineError(f"{path} is not TOML: {error}", ExitCode.USAGE) from error
    return parse_rules(text, str(path), lambda name: str(path.parent / name))


def parse_rules(text: str, place: str, located: Callable[[str], str] = str) -> RulesSpec:
    """Parse the text of rules, called `place` in sentences. Raises PipelineError."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PipelineError(f"{place} is not TOML: {error}", ExitCode.USAGE) from error
    top = TomlTable(place, content, _TOP)
    name = top.needed("name", '"errors"')
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,100}", name):
        raise top.refusal(f"has name = {name!r}: letters, digits, dots, _ and - make a name")
    inputs = {n: _input(n, each) for n, each in top.tables("inputs", _INPUT).items()}
    tables = {n: _table(n, each, located) for n, each in top.tables("tables", _TABLE).items()}
    scores = {n: _score(n, each) for n, each in top.tables("scores", _SCORE).items()}
    rules = _Rules(inputs, scores)
    for each, table in top.tables("rules", _RULE).items():
        rules.add(each, table)
    if not inputs or not rules.found:
        missing = "[inputs.NAME]" if not inputs else "[rules.NAME]"
        raise top.refusal(f"has no {missing}: a job reads an input and has a rule")
    _check_names(top, (inputs, tables, rules.found, scores))
    _check_scores(top, rules.found.values(), scores)
    _check_ends(top, rules.found.values())
    spec = RulesSpec(
        name=name,
        inputs=inputs,
        tables=tables,
        rules=rules.found,
        scores=scores,
        topics=_topics(top),
    )
    _check_topics(top, spec)
    return spec


def _columns(table: TomlTable, example: str) -> dict[str, str]:
    try:
        columns = ddl_columns(table.needed("schema", example))
    except ValueError as error:
        raise table.refusal(f"has a schema that cannot be read: {error}") from error
    for name in columns:
        if name.startswith("_") or name in WINDOW_COLUMNS:
            raise table.refusal(f"has a column {name}: that name is taken, choose another one")
    return columns


def _input(name: str, table: TomlTable) -> InputSpec:
    columns = _columns(table, '"time TIMESTAMP, service STRING"')
    topics = table.texts("topics")
    if not topics:
        raise table.refusal(f'needs topics, such as topics = ["{name}"]')
    form = table.one_of(table.text("format") or "json", ("json", "text"), "format")
    known = [*columns, *RECORD_COLUMNS]
    time = table.text("time")
    if time is not None:
        table.one_of(time, (each for each in known if each != "_time"), "time column")
    watermark_us = table.duration_us("watermark")
    if watermark_us is not None and time is None:
        raise table.refusal(
            "has a watermark and no time column: say which column holds the time of an event, "
            'such as time = "_timestamp", which is the time of the record'
        )
    dedupe = table.texts("dedupe")
    for column in dedupe:
        table.one_of(column, known, "column")
    if dedupe and watermark_us is None:
        raise table.refusal("has dedupe and no watermark, which says how long a row is remembered")
    ahead_us = table.duration_us("ahead")
    if ahead_us is not None and watermark_us is None:
        raise table.refusal("has ahead and no watermark, which is what a time far ahead would move")
    idle_us = table.duration_us("idle")
    return InputSpec(
        name=name,
        topics=topics,
        columns=columns,
        pattern=_pattern(table, columns) if form == "text" else None,
        time=time,
        watermark_us=watermark_us,
        ahead_us=_AHEAD_US if ahead_us is None else ahead_us,
        idle_us=_IDLE_US if idle_us is None else idle_us,
        dedupe=dedupe,
        broken=table.text("broken") or f"{topics[0]}-broken",
        late=table.text("late") or f"{topics[0]}-late",
    )


def _pattern(table: TomlTable, columns: Iterable[str]) -> str:
    text = table.needed("pattern", r"""'(?P<time>\S+) (?P<service>\w+) .*'""")
    try:
        groups = re.compile(text).groupindex
    except re.error as error:
        raise table.refusal(f"has a pattern that is not a regular expression: {error}") from error
    for name in columns:
        if name not in groups:
            table.one_of(name, groups, "group of the pattern for column")
    return text


def _table(name: str, table: TomlTable, located: Callable[[str], str]) -> TableSpec:
    path, topic = table.text("path"), table.text("topic")
    if (path is None) == (topic is None):
        raise table.refusal(f'needs a path or a topic, such as path = "{name}.csv"')
    suffix = path.rpartition(".")[2] if path else "json"
    form = table.text("format") or (suffix if suffix in _FORMS else "csv")
    reload_us = table.duration_us("reload")
    return TableSpec(
        name=name,
        path=located(path) if path else None,
        topic=topic,
        form=table.one_of(form, _FORMS, "format"),
        columns=_columns(table, '"prefix STRING, region STRING"'),
        reload_us=_RELOAD_US if reload_us is None else reload_us,
    )


def _score(name: str, table: TomlTable) -> ScoreSpec:
    return ScoreSpec(
        name=name,
        by=table.needed("by", '"device"'),
        threshold=table.number("threshold", 1.0),
        to=table.needed("to", f'"{name}"'),
    )


class _Rules:
    """Rules one after the other: each may read those before it."""

    def __init__(self, inputs: Mapping[str, InputSpec], scores: Mapping[str, ScoreSpec]) -> None:
        self.found: dict[str, RuleSpec] = {}
        self._inputs = inputs
        self._scores = scores

    def add(self, name: str, table: TomlTable) -> None:
        """Add a rule. Raises PipelineError."""
        sources = table.texts("from")
        if not sources:
            raise table.refusal(f'needs from, such as from = "{next(iter(self._inputs), "logs")}"')
        for source in sources:
            table.one_of(source, [*self._inputs, *self.found], "input or earlier rule")
        sql = table.text("sql")
        given = [part for part in _PARTS if part in table.values]
        if sql is not None and given:
            raise table.refusal(f"has sql and {given[0]}: SQL says all of it")
        emit = table.one_of(table.text("emit") or "rows", ("rows", "update"), "emit")
        window_us = table.duration_us("window")
        rule = RuleSpec(
            name=name,
            sources=sources,
            sql=sql,
            where=table.text("where"),
            join=table.text("join"),
            by=table.texts("by"),
            select=table.expressions("select"),
            having=table.text("having"),
            window_us=window_us,
            slide_us=table.duration_us("slide") or window_us,
            is_update=emit == "update",
            to=table.text("to"),
            key=table.texts("key"),
            points=table.expressions("points"),
        )
        self._check(rule, table)
        self.found[name] = rule

    def _check(self, rule: RuleSpec, table: TomlTable) -> None:
        if rule.window_us is not None:
            self._check_window(rule, table)
        elif "slide" in table.values:
            raise table.refusal("has slide and no window")
        elif rule.is_update:
            self._check_update(rule, table)
        else:
            if len(rule.sources) > 1:
                raise table.refusal("joins inputs, which needs a window: rows meet in windows")
            if rule.by or rule.having:
                raise table.refusal(
                    'groups rows, which needs a window, or emit = "update" to keep a row per key'
                )
        for score in rule.points:
            table.one_of(score, self._scores, "score")
        if not rule.to and not rule.points and rule.key:
            raise table.refusal("has a key and no topic to write to")

    def _check_window(self, rule: RuleSpec, table: TomlTable) -> None:
        assert rule.window_us is not None
        assert rule.slide_us is not None
        if rule.is_update:
            raise table.refusal('has a window and emit = "update": choose one of them')
        if not 0 < rule.slide_us <= rule.window_us:
            raise table.refusal("has a slide that is longer than its window, or 0")
        for source in rule.sources:
            if source not in self._inputs:
                raise table.refusal(
                    f"has a window over the rule {source}: windows are over inputs (SQL may have "
                    "several steps)"
                )
            if self._inputs[source].watermark_us is None:
                raise table.refusal(
                    f"has a window, and the input {source} has no watermark, which says when a "
                    f'window is over: give [inputs.{source}] watermark = "10s"'
                )

    def _check_update(self, rule: RuleSpec, table: TomlTable) -> None:
        if not rule.by or not rule.select or rule.sql or rule.having:
            raise table.refusal(
                'has emit = "update", which takes by and select, such as by = "user", '
                'select = { total = "sum(amount)", state = "latest(state)" }'
            )
        if len(rule.sources) > 1 or rule.sources[0] not in self._inputs:
            raise table.refusal('has emit = "update", which is over one input')


def _check_names(top: TomlTable, maps: Iterable[Mapping[str, object]]) -> None:
    seen: set[str] = set()
    for name in (name for each in maps for name in each):
        if name.lower() in seen:
            raise top.refusal(f"has the name {name} twice: inputs, tables, rules and scores share")
        seen.add(name.lower())


def _check_scores(
    top: TomlTable, rules: Iterable[RuleSpec], scores: Mapping[str, ScoreSpec]
) -> None:
    for name in scores:
        shapes = {(r.window_us, r.slide_us) for r in rules if name in r.points}
        if not shapes:
            raise top.refusal(f"has the score {name}, and no rule gives points = {{ {name} = 1 }}")
        if len(shapes) > 1 or (None, None) in shapes:
            raise top.refusal(
                f"has the score {name}: the rules that give points to it need one and the same "
                "window and slide"
            )


def _check_ends(top: TomlTable, rules: Collection[RuleSpec]) -> None:
    """Refuse a rule that neither writes nor gives points nor is read by another one."""
    for rule in rules:
        others = [each for each in rules if each is not rule]
        is_read = any(
            rule.name in each.sources or rule.name in f"{each.sql} {each.join}" for each in others
        )
        if not rule.to and not rule.points and not is_read:
            raise top.refusal(
                f'has the rule {rule.name}, which leads nowhere: give it to = "TOPIC", or points '
                "for a score"
            )


def _topics(top: TomlTable) -> dict[str, TopicSpec]:
    outer = TomlTable(f"{top.place}, [topics]", top.values.get("topics", {}))
    found = {}
    for name, values in outer.values.items():
        table = TomlTable(f'{top.place}, [topics."{name}"]', values)
        settings = dict(table.values)
        settings.pop("partitions", None)
        settings.pop("replication-factor", None)
        for key, value in settings.items():
            if isinstance(value, dict | list):
                raise table.refusal(f'has {key}: write names with dots in quotes, "{key}.NAME"')
        found[name] = TopicSpec(
            name=name,
            partitions=table.count("partitions") or _OF_THE_BROKER,
            replication_factor=table.count("replication-factor") or _OF_THE_BROKER,
            settings={key: _setting(value) for key, value in settings.items()},
        )
    return found


def _setting(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check_topics(top: TomlTable, spec: RulesSpec) -> None:
    read = {topic: name for name, each in spec.inputs.items() for topic in each.topics}
    if len(read) < sum(len(each.topics) for each in spec.inputs.values()):
        raise top.refusal("has a topic in two inputs: one input may feed many rules")
    written = spec.output_topics()
    for topic in written:
        if topic in read:
            raise top.refusal(f"writes to {topic}, which its input {read[topic]} reads")
    for topic in spec.topics:
        top.one_of(topic, written, "output topic")
