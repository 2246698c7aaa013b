"""A file of rules becomes a spec, or one sentence that says what is wrong and what is near."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbroker.pipeline.errors import ExitCode, PipelineError
from kbroker.pipeline.rule_jobs.rule_reading import parse_rules, read_rules

EXAMPLES = sorted((Path(__file__).parents[4] / "examples" / "rules").glob("*/rules.toml"))

LOGS = """
name = "logs"
[inputs.logs]
topics = ["logs"]
schema = "time TIMESTAMP, service STRING, level STRING, id BIGINT"
time = "time"
watermark = "10s"
dedupe = ["id"]
"""
ERRORS = """
[rules.errors]
from = "logs"
where = "level = 'ERROR'"
window = "1m"
by = "service"
to = "errors"
"""


def test_a_rule_of_parts_has_its_window_and_groups() -> None:
    spec = parse_rules(LOGS + ERRORS, "rules.toml")

    rule = spec.rules["errors"]
    assert (rule.window_us, rule.slide_us, rule.by) == (60_000_000, 60_000_000, ("service",))
    assert spec.inputs["logs"].dedupe == ("id",)
    assert list(spec.output_topics()) == ["errors", "logs-broken", "logs-late"]


def test_a_topic_of_rows_by_key_is_compacted_unless_the_file_says_otherwise() -> None:
    rule = """
[rules.totals]
from = "logs"
by = "service"
select = { lines = "count(*)" }
emit = "update"
to = "totals"
"""
    other = '[topics.totals]\npartitions = 3\nretention.ms = 1\n"max.message.bytes" = 5\n'

    assert parse_rules(LOGS + rule, "f").output_topics()["totals"].settings == {
        "cleanup.policy": "compact"
    }
    with pytest.raises(PipelineError, match=r'write names with dots in quotes, "retention\.NAME"'):
        parse_rules(LOGS + rule + other, "f")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_the_rules_of_the_examples_are_right(path: Path) -> None:
    assert read_rules(path).name == path.parent.name


WRONG = [
    ("watermark", "watermrk", "rules.toml, [inputs.logs] has no key watermrk, did you mean watermark?"),
    ("time = ", "# ", "has a watermark and no time column: say which column"),
    ('time = "time"', 'time = "tme"', "names the time column tme, which is not there, did you mean time?"),
    ('"10s"', '"10"', "[inputs.logs] has watermark = '10', which is not a duration such as"),
    ('"10s"', "10", "[inputs.logs] has watermark = 10: give a text such as \"30s\""),
    ('to = "errors"', "", "has the rule errors, which leads nowhere: give it to = \"TOPIC\", or points"),
    ('["id"]', '["idd"]', "[inputs.logs] names the column idd, which is not there, did you mean id?"),
    ('watermark = "10s"', "", "has dedupe and no watermark, which says how long"),
    ("id BIGINT", "id", "has a schema that cannot be read: 'id' is not a column"),
    ("id BIGINT", "time DATE", "has a schema that cannot be read: column time is there twice"),
    ("id BIGINT", "_time DATE", "has a column _time: that name is taken"),
    ('from = "logs"', 'from = "lgs"', "[rules.errors] names the input or earlier rule lgs, which is not there, did you mean logs?"),
    ('from = "logs"', "", 'rules.toml, [rules.errors] needs from, such as from = "logs"'),
    ("window", "windw", "rules.toml, [rules.errors] has no key windw, did you mean window?"),
    ('window = "1m"', "", 'groups rows, which needs a window, or emit = "update"'),
    ('window = "1m"', 'slide = "1m"', "has slide and no window"),
    ('window = "1m"', 'window = "1m"\nslide = "2m"', "has a slide that is longer than its window"),
    ('window = "1m"', 'window = "1m"\nemit = "update"', 'has a window and emit = "update"'),
    ('window = "1m"', 'emit = "update"', 'has emit = "update", which takes by and select'),
    ("where", 'sql = "SELECT 1"\nwhere', "has sql and where: SQL says all of it"),
    ('to = "errors"', 'to = "logs"', "writes to logs, which its input logs reads"),
    ('to = "errors"', 'points = { risk = 1 }', "names the score risk, which is not there"),
    ("[rules.errors]", "[rule.errors]", "rules.toml has no key rule, did you mean rules?"),
    ("[rules.errors]", "[rules.logs]", "has the name logs twice"),
    ("[rules.errors]", "[rules.log-errors]", "has 'log-errors': a name is letters, digits and _"),
    ('name = "logs"', "", 'rules.toml needs name, such as name = "errors"'),
    ('name = "logs"', 'name = "a/b"', "has name = 'a/b': letters, digits"),
    ('name = "logs"', "name = ", "rules.toml is not TOML:"),
    ('name = "logs"', 'name = "x"\n[scores.risk]\nby = "service"\nto = "t"\n', "has the score risk, and no rule gives points"),
    ('name = "logs"', 'name = "x"\n[topics.errors]\npartitions = 0\n', "[topics.\"errors\"] has partitions = 0: give a whole number from 1 on"),
    ('name = "logs"', 'name = "x"\n[topics.errors]\nreplication-factor = 1.5\n', "has replication-factor = 1.5: give a whole number from 1 on"),
    ('name = "logs"', 'name = "x"\n[topics.erors]\npartitions = 1\n', "names the output topic erors, which is not there, did you mean errors?"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "instead", "sentence"), WRONG, ids=[row[1] or row[0] for row in WRONG]
)
def test_what_is_wrong_is_one_sentence(text: str, instead: str, sentence: str) -> None:
    assert text in LOGS + ERRORS

    with pytest.raises(PipelineError) as raised:
        parse_rules((LOGS + ERRORS).replace(text, instead, 1), "rules.toml")

    assert sentence in raised.value.sentence
    assert raised.value.code is ExitCode.USAGE
    assert "\n" not in raised.value.sentence


def test_the_place_of_a_job_stays_where_inputs_change_their_order() -> None:
    inputs = [f'[inputs.{name}]\ntopics = ["{name}"]\nschema = "n INT"\n' for name in "ba"]
    rule = '[rules.all]\nfrom = "a"\nto = "all"\n'
    specs = [
        parse_rules('name = "n"\n' + "".join(each) + rule, "n.toml")
        for each in (inputs, inputs[::-1])
    ]

    assert [spec.place_topic() for spec in specs] == ["a-broken", "a-broken"]
    assert specs[0].shape() == specs[1].shape()


def test_a_bound_of_times_is_for_inputs_with_a_watermark() -> None:
    def made(*lines: str) -> int:
        text = ['name = "n"', "[inputs.t]", 'topics = ["t"]', 'schema = "at BIGINT"', *lines]
        rule = ["[rules.r]", 'from = "t"', 'to = "r"']
        return parse_rules("\n".join([*text, *rule]), "n.toml").inputs["t"].ahead_us

    assert made('time = "at"', 'watermark = "1s"', 'ahead = "2h"') == 7_200_000_000
    assert made() == 1_000 * 86_400_000_000
    with pytest.raises(PipelineError, match="has ahead and no watermark"):
        made('time = "at"', 'ahead = "2h"')
