"""Rules over topics: results are those of the truth, wherever a run was cut short."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from compat_tests.clients.every_client import create_topic
from compat_tests.commands.command_line import run
from compat_tests.conftest import BrokerProcess
from examples.rules.events import Event
from examples.rules.run import HERE, differences, load_generator, read
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.rule_jobs.input_rows import InputRows
from kbroker.pipeline.rule_jobs.lookup_tables import LookupTables
from kbroker.pipeline.rule_jobs.partitions_look import PartitionsLook, look_at
from kbroker.pipeline.rule_jobs.rule_check import check_rules
from kbroker.pipeline.rule_jobs.rule_reading import parse_rules, read_rules
from kbroker.pipeline.rule_jobs.rule_spec import RulesSpec
from kbroker.pipeline.rule_jobs.rules_job import RulesJob
from kbroker.pipeline.rule_jobs.step_journal import StepJournal
from kbroker.pipeline.rule_jobs.step_writer import StepWriter
from kbroker.pipeline.sources.kafka_source import KafkaSource
from kbroker.pipeline.spark_job.checkpoint import Checkpoint
from kbroker.pipeline.spark_job.lost_java import quiet_query_errors
from kbroker.pipeline.spark_job.stream_job import JobSettings, StreamJob
from tests.fakes.logs.spoiled_topic import broker_with
from tests.fakes.logs.unreadable_batches import unreadable_batch

SHOP = """
name = "shop"

[inputs.orders]
topics = ["orders"]
schema = "at BIGINT NOT NULL, user STRING, device STRING, code STRING, amount INT"
time = "at"
watermark = "10s"
idle = "0s"

[tables.codes]
path = "codes.csv"
schema = "code STRING, region STRING"
reload = "0s"

[tables.levels]
topic = "levels"
schema = "user STRING, level INT"

[rules.placed]
from = "orders"
join = "LEFT JOIN codes USING (code) LEFT JOIN levels USING (user)"
select = { user = "user", region = "region", level = "level" }
to = "placed"
key = "user"

[rules.users]
from = "orders"
window = "20s"
slide = "10s"
sql = '''
SELECT window_end, window_start, device, count(DISTINCT user) AS users FROM orders
GROUP BY window_end, window_start, device'''
points = { risk = "users * 10" }

[rules.large]
from = "orders"
where = "amount > 100"
window = "20s"
slide = "10s"
by = "device"
points = { risk = 15 }

[scores.risk]
by = "device"
threshold = 25
to = "risks"

[rules.totals]
from = "orders"
by = "user"
select = { total = "sum(amount)", last = "latest(device)" }
emit = "update"
to = "totals"

[rules.rich]
from = "totals"
where = "total >= 200"
to = "rich"
key = "user"
"""


HARD = """
name = "hard"

[inputs.bought]
topics = ["bought"]
schema = "at BIGINT NOT NULL, user STRING"
time = "at"
watermark = "1s"
idle = "0s"

[inputs.seen]
topics = ["seen"]
schema = "at BIGINT NOT NULL, user STRING"
time = "at"
watermark = "1s"
idle = "0s"

[rules.unseen]
from = ["seen", "bought"]
window = "10s"
sql = '''
SELECT b.window_start, b.window_end, b.user FROM bought b
LEFT ANTI JOIN seen s ON s.window_start = b.window_start AND s.user = b.user'''
to = "unseen"

[rules.times]
from = "bought"
by = "user"
select = { last = "max(at)" }
emit = "update"
to = "times"
"""

PLAIN = """
name = "n"

[inputs.t]
topics = ["t"]
schema = "a BIGINT"

[rules.r]
from = "t"
to = "r"
"""

VALUES = {
    '{"a": 1}': "ok",
    '\n\t{"a": 1} \n': "ok",
    "{}": "ok",
    '{"a": 1}{"a": 2}': "broken",
    '{"a": 1} and more': "broken",
    '{"a": 1}}': "broken",
    '{"a": 1},{"a": 2}': "broken",
    '[{"a": 1}]': "broken",
    '{"a": 9223372036854775808}': "broken",
    '{"a": 1.5}': "broken",
    '{"a": 1': "broken",
    "": "broken",
}

NANOSECONDS = 1_795_266_000_000_000_000  # a time that a producer took for milliseconds

Look = Callable[[Mapping[str, int]], PartitionsLook | None]


class CutError(Exception):
    """The process ends here."""


def job_of(
    spec: RulesSpec, bootstrap: str, folder: Path, look: Look | None = None
) -> tuple[RulesJob, StreamJob]:
    topics = tuple(topic for each in spec.inputs.values() for topic in each.topics)
    source = KafkaSource(bootstrap=bootstrap, topics=topics)
    tables = LookupTables(spec.tables.values(), source.of_topic)
    rules = RulesJob(spec, source, folder, tables, look or partial(look_at, source))
    settings = JobSettings(kind="rules", batch_records=150)
    return rules, StreamJob(spec.name, source, Checkpoint(folder), settings, rules.work)


def run_to_end(spark: Any, spec: RulesSpec, bootstrap: str, folder: Path) -> tuple[RulesJob, str]:
    rules, job = job_of(spec, bootstrap, folder)
    return rules, job.run(spark).job_id


def write(bootstrap: str, events: list[Event], time_ms: int = 0) -> None:
    """The records have this time, or that of now."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for event in events:
        producer.produce(event.topic, event.value, event.key, event.partition, timestamp=time_ms)
    assert producer.flush(30) == 0


def orders(*rows: tuple[int, str, str, str, int]) -> list[Event]:
    """Seconds, user, device, code, amount."""
    found = []
    for second, *rest in rows:
        names = ("user", "device", "code", "amount")
        row = {"at": 1_000_000_000_000 + second * 1_000, **dict(zip(names, rest, strict=True))}
        found.append(Event("orders", 0, rest[0], json.dumps(row), row["at"]))
    return found


def rows_of(bootstrap: str, topic: str) -> list[dict[str, Any]]:
    return [json.loads(value) for _, value in read(bootstrap, topic)]


def cut_after(owner: type, name: str) -> Callable[[pytest.MonkeyPatch], None]:
    """The next call of a method does its work, and then the process ends."""
    method = getattr(owner, name)

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        def cut(*args: Any, **values: Any) -> Any:
            method(*args, **values)
            raise CutError

        monkeypatch.setattr(owner, name, cut)

    return patch


CUTS = [
    cut_after(StepJournal, "stage"),
    cut_after(StepJournal, "publish"),
    cut_after(StepWriter, "write"),
    cut_after(StepJournal, "note_written"),
]


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path / "own" / "data")
    broker.start()
    yield broker
    broker.stop()


def test_logs_give_their_truth_though_job_and_broker_end_at_every_step(
    spark: Any, kafka_connector: str, own_broker: BrokerProcess, tmp_path: Path
) -> None:
    generator = load_generator("logs-errors")
    spec = read_rules(HERE / "logs-errors" / "rules.toml")
    events = generator.events(seed=3, count=400)
    for topic, partitions in (*generator.TOPICS.items(), *((t, 2) for t in spec.output_topics())):
        create_topic(own_broker.bootstrap, topic, partitions)
    write(own_broker.bootstrap, events)

    for number, cut in enumerate(CUTS):
        with pytest.MonkeyPatch.context() as monkeypatch:
            cut(monkeypatch)
            with pytest.raises(CutError):
                run_to_end(spark, spec, own_broker.bootstrap, tmp_path / "checkpoint")
        if number == 1:
            own_broker.stop(signal.SIGKILL)
            own_broker.start()
    rules, job_id = run_to_end(spark, spec, own_broker.bootstrap, tmp_path / "checkpoint")
    rules.close_windows(spark, job_id)

    results = {topic: read(own_broker.bootstrap, topic) for topic in generator.truth(events)}
    assert differences(generator, events, results) == []
    assert all(results.values())


def test_records_count_once_where_the_notes_of_spark_are_older_than_the_state(
    spark: Any, kafka_connector: str, own_broker: BrokerProcess, tmp_path: Path
) -> None:
    generator = load_generator("logs-errors")
    spec = read_rules(HERE / "logs-errors" / "rules.toml")
    bootstrap = own_broker.bootstrap
    events = generator.events(seed=4, count=400)
    for topic, partitions in (*generator.TOPICS.items(), *((t, 2) for t in spec.output_topics())):
        create_topic(bootstrap, topic, partitions)
    checkpoint = tmp_path / "checkpoint"
    write(bootstrap, events[:300])
    run_to_end(spark, spec, bootstrap, checkpoint)

    for number in (1, 2):  # which a power loss takes, or a copy that was made while the job ran
        for log in ("offsets", "commits"):
            for name in (f"{number}", f".{number}.crc"):
                (checkpoint / log / name).unlink(missing_ok=True)
    write(bootstrap, events[300:])
    rules, job_id = run_to_end(spark, spec, bootstrap, checkpoint)
    rules.close_windows(spark, job_id)

    results = {topic: read(bootstrap, topic) for topic in generator.truth(events)}
    assert differences(generator, events, results) == []


def test_keys_are_kept_points_summed_tables_loaded_again_and_broken_records_put_aside(
    spark: Any, bootstrap: str, tmp_path: Path
) -> None:
    codes = tmp_path / "codes.csv"
    spec = parse_rules(SHOP, "shop.toml", lambda name: str(tmp_path / name))
    for topic in ("orders", "levels", *spec.output_topics()):
        create_topic(bootstrap, topic, 1)
    levels = (("ann", 1), ("bob", 7), ("ann", 2))
    people = [(user, json.dumps({"user": user, "level": level})) for user, level in levels]
    write(bootstrap, [Event("levels", 0, user, text, None) for user, text in people], NANOSECONDS)
    checkpoint = tmp_path / "checkpoint"

    codes.write_text("code,region\n49,north\n")
    write(bootstrap, orders((0, "ann", "d1", "49", 150), (1, "bob", "d1", "48", 20)))
    write(bootstrap, [Event("orders", 0, "x", text, None) for text in ("{", '{"user": "ann"}')])
    first, _ = run_to_end(spark, spec, bootstrap, checkpoint)
    codes.write_text("code;region\n48;south\n")
    write(bootstrap, orders((5, "ann", "d2", "48", 60), (60, "cyd", "d2", "49", 7)))
    _, job = job_of(spec, bootstrap, checkpoint)
    with pytest.raises(PipelineError, match=r"table codes cannot be read from .*codes\.csv"):
        job.run(spark)
    held = LookupTables(spec.tables.values(), KafkaSource(bootstrap=bootstrap).of_topic)
    codes.write_text("code,region\n49,north\n48,south\n")
    notes = [held.views(spark)]
    codes.unlink()
    notes.append(held.views(spark))
    codes.write_text("code,region\n49,north\n48,south\n")
    second, _ = run_to_end(spark, spec, bootstrap, checkpoint)

    assert notes[0] == []
    assert notes[1][0].endswith("there is no such file; rules go on with the rows it had")
    assert spark.table("codes").count() == 2
    assert rows_of(bootstrap, "placed") == [
        {"user": "ann", "region": "north", "level": 2},
        {"user": "bob", "region": None, "level": 7},
        {"user": "ann", "region": "south", "level": 2},
        {"user": "cyd", "region": "north", "level": None},
    ]
    assert {row["user"]: row for row in rows_of(bootstrap, "totals")} == {
        "ann": {"user": "ann", "total": 210, "last": "d2"},
        "bob": {"user": "bob", "total": 20, "last": "d1"},
        "cyd": {"user": "cyd", "total": 7, "last": "d2"},
    }
    assert rows_of(bootstrap, "rich") == [{"user": "ann", "total": 210, "last": "d2"}]
    risks = [
        (row["window_end"][17:19], row["score"], row["rules"])
        for row in rows_of(bootstrap, "risks")
    ]
    assert risks == [("50", 35.0, ["large", "users"]), ("00", 35.0, ["large", "users"])]
    assert [value for _, value in read(bootstrap, "orders-broken")] == ["{", '{"user": "ann"}']
    assert (first.counts["broken"], second.counts["late"], second.counts["accepted"]) == (2, 0, 2)


def test_no_record_however_strange_ends_a_job_or_moves_its_time(
    spark: Any, bootstrap: str, tmp_path: Path
) -> None:
    spec = parse_rules(HARD, "hard.toml")
    for topic, partitions in (("seen", 1), ("bought", 2), *((t, 1) for t in spec.output_topics())):
        settings = {"cleanup_policy": "compact"} if topic == "times" else {}
        create_topic(bootstrap, topic, partitions, **settings)
    strange = ('{"at": 4102444800000}', '{"at": 9223372036854775807}')
    good = ('{"at": 1000000, "user": "ann"}', '{"at": 1030000}', '{"at": 1020000, "user": "bob"}')
    write(
        bootstrap,
        [
            Event("seen", 0, "k", '{"at": 1030000, "user": "ann"}', None),
            *(Event("bought", 0, "k", text, None) for text in (*strange, *good[:2])),
            Event("bought", 1, "k", "{", None),
        ],
    )
    reading = PartitionsLook(("seen-0", "bought-0", "bought-1"), ("bought-1",))

    write(bootstrap, [Event("bought", 1, "k", text, None) for text in ("[", "]")], NANOSECONDS)

    rules, job = job_of(spec, bootstrap, tmp_path / "checkpoint", lambda _ends: reading)
    report = job.run(spark)
    aside = run("consume", "bought-broken", "--output", "jsonl", bootstrap=bootstrap)
    assert rules.counts == {"accepted": 3, "broken": 5}
    assert report.notes == (
        "bought-1: the record at offset 1, and 1 more of this batch, has a time that a TIMESTAMP "
        f"cannot hold, {NANOSECONDS} ms (are these nanoseconds?): its _timestamp is null",
    )
    assert aside.out.count(json.dumps(str(NANOSECONDS))) == 2
    assert [row["user"] for row in rows_of(bootstrap, "unseen")] == ["ann"]
    assert sorted(read(bootstrap, "times")) == [
        ("ann", '{"user":"ann","last":1000000}'),
        ('{"user":null}', '{"user":null,"last":1030000}'),
    ]
    broken = [value for _, value in read(bootstrap, "bought-broken")]
    assert sorted(broken) == sorted([*strange, *"{[]"])


def test_a_batch_that_cannot_be_unpacked_ends_a_job_with_its_place(
    spark: Any, kafka_connector: str, tmp_path: Path
) -> None:
    with broker_with(tmp_path / "data", {"t-0": [unreadable_batch(0, 3)]}) as bootstrap:
        rules, job = job_of(parse_rules(PLAIN, "n.toml"), bootstrap, tmp_path / "checkpoint")
        with pytest.raises(PipelineError, match="t-0: the batch of offsets 0 to 2 cannot be read"):
            job.run(spark)

    assert rules.counts == {}


def test_a_value_is_one_object_of_the_schema_or_broken(spark: Any) -> None:
    rows = [(value.encode(),) for value in VALUES]
    frame = spark.createDataFrame(rows, "value BINARY").selectExpr(
        "*", "'t' topic", "0 partition", "0L offset", "now() timestamp",
        "CAST(NULL AS BINARY) key", "CAST(NULL AS ARRAY<STRUCT<key: STRING, value: BINARY>>) headers",
    )  # fmt: skip
    inputs = InputRows(parse_rules(PLAIN, "n.toml").inputs["t"], spark)

    told = inputs.told_apart(frame, None, {}, 0).select("_raw.value", "_class").collect()
    assert {bytes(value).decode(): kind for value, kind in told} == VALUES


WRONG = [
    ("users * 10", "usrs * 10", "[scores.risk] names the column usrs, which is not there, did you mean users?"),
    ("amount > 100", "amont > 100", "[rules.large] names the column amont, which is not there, did you mean amount?"),
    ("JOIN codes", "JOIN code", "[rules.placed] names the input, table or rule code, which is not there, did you mean codes?"),
    ("count(DISTINCT user)", "cuont(user)", "[rules.users] names the function cuont, which is not there, did you mean count?"),
    ("window_end, window_start, device", "device", "[rules.users] has a window, and its SQL gives neither"),
    ("GROUP BY", "GROP BY", "[rules.users] is not right: Syntax error at or near 'BY'"),
    ("sum(amount)", "avg(amount)", "[rules.totals] cannot keep 'avg(amount)' is not sum(...)"),
    ("amount INT", "amount INTT", "[inputs.orders], schema is not right: Unsupported data type"),
    ('to = "placed"\nkey = "user"', 'to = "placed"\nkey = "usr"', "[rules.placed] gives no column usr, did you mean user?"),
    ('by = "user"', 'by = "orders.user"', "[rules.totals] groups by orders.user: by has columns without their table, so give user; "),
    ("sum(amount)", "sum(ordrs.amount)", "[rules.totals] names the column ordrs.amount, which is not there, did you mean orders.amount?"),
    ("at BIGINT", "at STRING", "[inputs.orders] has the time at, which is STRING: a time is TIMESTAMP"),
]  # fmt: skip


def test_sql_that_does_not_fit_is_one_sentence(
    spark: Any, caplog: pytest.LogCaptureFixture
) -> None:
    quiet_query_errors()
    check_rules(spark, parse_rules(SHOP, "shop.toml"), "shop.toml")
    said = []
    for text, instead, _ in WRONG:
        assert text in SHOP
        with pytest.raises(PipelineError) as raised:
            check_rules(spark, parse_rules(SHOP.replace(text, instead), "f"), "f")
        said.append(raised.value.sentence)

    assert [s for s, row in zip(said, WRONG, strict=True) if not s.startswith(f"f, {row[2]}")] == []
    assert not any("\n" in sentence for sentence in said)
    assert caplog.records == []


@pytest.mark.parametrize(
    ("having", "near"), [("spnt > 9", "spent"), ("windw_end > now()", "window_end")]
)
def test_a_condition_on_groups_is_told_of_the_columns_that_its_rule_makes(
    spark: Any, having: str, near: str
) -> None:
    quiet_query_errors()
    rule = f"""
[rules.spenders]
from = "orders"
window = "20s"
by = "user"
select = {{ spent = "sum(amount)" }}
having = "{having}"
to = "spenders"
"""
    with pytest.raises(PipelineError, match=f"did you mean {near}[?]"):
        check_rules(spark, parse_rules(SHOP + rule, "f"), "f")
