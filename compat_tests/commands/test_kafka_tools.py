"""`kbroker kafka-tool` prints what Apache Kafka's own tools print, and ends as they do: each step is
taken by both on one broker, on topics and groups of their own.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass

import pytest
from kafka import KafkaConsumer, KafkaProducer

from compat_tests.clients.every_client import create_topic
from compat_tests.commands.command_line import UNUSED, run
from compat_tests.commands.tool_runner import run_tool
from compat_tests.running.apache_kafka import NEWEST, ZOOKEEPER_LINE
from compat_tests.running.waiting import until

pytestmark = pytest.mark.java

CLASSES = {
    "topics": "org.apache.kafka.tools.TopicCommand",
    "configs": "kafka.admin.ConfigCommand",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
}
OF_3_9 = {
    "console-producer": "kafka.tools.ConsoleProducer",
    "broker-api-versions": "kafka.admin.BrokerApiVersionsCommand",
}
# What differs by itself from one topic, or one run, to the next.
OWN = re.compile(r"(?<=TopicId: )\S+|(?<=Time:)\d+")
KEYED = ("--property", "parse.key=true", "--property", "key.separator=:")
SHOWN = [
    part
    for field in ("key", "timestamp", "partition", "offset", "headers")
    for part in ("--property", f"print.{field}=true")
]


@dataclass(frozen=True)
class Step:
    """A call of a tool: `T` in its words is a topic, `G` a group. One that is not `in_both` prints
    something else in 3.9.2.
    """

    line: str
    stdin: str | None = None
    more: tuple[str, ...] = ()  # words with spaces
    in_both: bool = True


STEPS = [
    Step("topics --create --topic T --partitions 3 --replication-factor 1"),
    Step("topics --create --topic T --partitions 3"),
    Step("topics --create --topic T --if-not-exists"),
    Step("topics --create --topic T.x --config retention.ms=1000 --config cleanup.policy=compact"),
    Step("topics --create --topic T-y --config retentin.ms=1000"),
    Step("topics --create --topic T-y --replication-factor 9"),
    Step("topics --create --topic T-y", more=("--config", "cleanup.policy=what")),
    Step("topics --create", more=("--topic", "T y")),
    Step("topics --list --topic T.*"),
    Step("topics --list --topic T,T.x"),
    Step("topics --list --exclude-internal --topic __.*"),
    Step("topics --describe --topic T"),
    Step("topics --describe --topic T.*"),
    Step("topics --desc --topic T"),
    Step("topics --describe --topic T.* --topics-with-overrides"),
    Step("topics --describe --topic T --under-replicated-partitions"),
    Step("topics --describe --topic T --unavailable-partitions"),
    Step("topics --describe --topic T --under-min-isr-partitions"),
    Step("topics --describe --topic T --at-min-isr-partitions"),
    Step("topics --create --topic T.z --replica-assignment 0,0"),
    Step("topics --describe --topic T.z"),
    Step("topics --alter --topic T.z --partitions 3 --replica-assignment 0,0,0"),
    Step("topics --alter --topic T.z --partitions 4 --replica-assignment 0,0", in_both=False),
    Step("topics --create --topic T-y --replica-assignment 0:0"),
    Step("topics --create --topic T-y --replica-assignment 0,0:1"),
    Step("topics --create --topic T-y --replica-assignment one"),
    Step("topics --create --topic T-y --replica-assignment 0 --partitions 1"),
    Step("topics --describe --topic T-none", in_both=False),
    Step("topics --describe --topic T-none --if-exists"),
    Step("topics --alter --topic T --partitions 4"),
    Step("topics --alter --topic T --partitions 2"),
    Step("topics --alter --topic T-none --partitions 2", in_both=False),
    Step("topics --alter --topic T-none --partitions 2 --if-exists"),
    Step("topics --delete --topic T.x"),
    Step("topics --delete --topic T-none", in_both=False),
    Step("topics --delete --topic T-none --if-exists"),
    Step("configs --describe --entity-type topics --entity-name T"),
    Step(
        "configs --alter --entity-type topics --entity-name T --add-config "
        "retention.ms=5000,cleanup.policy=[compact,delete],max.message.bytes=9000"
    ),
    Step("configs --describe --topic T"),
    Step("configs --describe --entity-type topics --entity-name T --all"),
    Step("configs --alter --topic T --delete-config retention.ms,max.message.bytes"),
    Step("configs --alter --topic T --delete-config retention.ms", in_both=False),
    Step("configs --alter --topic T --add-config bogus=1"),
    Step("configs --alter --topic T --add-config retention.ms=x"),
    Step("configs --describe --entity-type topics --entity-name T"),
    Step("configs --alter --entity-type brokers --entity-default --add-config log.retention.ms=9"),
    Step("configs --describe --entity-type brokers --entity-default"),
    Step("configs --alter --broker-defaults --delete-config log.retention.ms"),
    Step("configs --describe --broker-defaults"),
    Step(
        "configs --alter --entity-type users --entity-name T --add-config "
        "SCRAM-SHA-256=[iterations=8192,password=x],SCRAM-SHA-512=[password=y]"
    ),
    Step("configs --describe --entity-type users --entity-name T"),
    Step("configs --alter --user T --delete-config SCRAM-SHA-256,SCRAM-SHA-512"),
    Step("configs --alter --user T --delete-config SCRAM-SHA-256", in_both=False),
    Step("configs --alter --user T --add-config SCRAM-SHA-512=[iterations=1,password=y]"),
    Step("configs --alter --user T --add-config SCRAM-SHA-512=y"),
    Step("configs --alter --user T --add-config bogus=1"),
    Step("configs --describe --user T"),
    Step("configs --alter --user T --add-config producer_byte_rate=1024,request_percentage=12.5"),
    Step("configs --alter --entity-type users --entity-name T --add-config consumer_byte_rate=9e9"),
    Step("configs --describe --entity-type users --entity-name T"),
    Step("configs --alter --user T --client T --add-config producer_byte_rate=2048"),
    Step("configs --describe --user T --client T"),
    Step("configs --describe --entity-type users --entity-name T --entity-type clients"),
    Step(
        "configs --alter --entity-type users --entity-name T --entity-type clients "
        "--entity-default --add-config controller_mutation_rate=0.5"
    ),
    Step(
        "configs --describe --entity-type users --entity-name T --entity-type clients "
        "--entity-default"
    ),
    Step("configs --alter --client T --add-config producer_byte_rate=1"),
    Step("configs --describe --client T"),
    Step("configs --alter --client-defaults --add-config producer_byte_rate=2000000000"),
    Step("configs --describe --entity-type clients --entity-default"),
    Step("configs --alter --client-defaults --delete-config producer_byte_rate"),
    Step("configs --describe --client-defaults"),
    Step("configs --alter --client T --delete-config consumer_byte_rate", in_both=False),
    Step("configs --alter --client T --add-config producer_byte_rate=0.5"),
    Step("configs --alter --client T --add-config producer_byte_rate=much"),
    Step("configs --alter --client T --add-config bogus=1"),
    Step("configs --alter --client T --delete-config bogus"),
    Step("configs --alter --user T --add-config producer_byte_rate=1,SCRAM-SHA-256=[password=x]"),
    Step("configs --alter --user-defaults --add-config SCRAM-SHA-256=[password=x]"),
    Step("configs --alter --ip 10.9.8.7 --add-config connection_creation_rate=5"),
    Step("configs --describe --ip 10.9.8.7"),
    Step("configs --describe --entity-type ips"),
    Step("configs --alter --ip 10.9.8.7 --add-config producer_byte_rate=5"),
    Step(
        "configs --alter --entity-type ips --entity-name 10.9.8.7 --delete-config "
        "connection_creation_rate"
    ),
    Step("configs --describe --ip 10.9.8.7"),
    Step(
        "configs --alter --user T --delete-config "
        "producer_byte_rate,request_percentage,consumer_byte_rate"
    ),
    Step("console-producer --topic T", stdin="k1:v1\n", more=KEYED, in_both=False),
    Step("console-producer --topic T", stdin="keyless\n", more=KEYED, in_both=False),
    Step("get-offsets --topic T --time -3"),
    Step(
        "console-producer --topic T --request-required-acks -1",
        stdin="k2:\n",
        more=KEYED,
        in_both=False,
    ),
    Step("get-offsets --topic T"),
    Step("get-offsets --topic T --time -2"),
    Step("get-offsets --topic T --time earliest --partitions 0,2"),
    Step("get-offsets --topic T --time 9999999999999"),
    Step("get-offsets --topic-partitions T:1-3,T:0"),
    Step("get-offsets --topic T-none"),
    Step("get-offsets --topic T --time soon"),
    Step("console-consumer --topic T --from-beginning --max-messages 2"),
    Step(
        "console-consumer --topic T --partition 1 --offset 0 --max-messages 1",
        more=SHOWN,
        in_both=False,
    ),
    Step("topics --create --topic T-y --partitions 1"),
    Step("console-producer --topic T-y", stdin="a\n\nb\n"),
    Step(
        "console-consumer --topic T-y --partition 0 --offset 1 --max-messages 2 --isolation-level read_committed"
    ),
    Step("console-consumer --include T-[yz] --from-beginning --max-messages 3 --group G"),
    Step("console-consumer --topic T-y --timeout-ms 300 --group G --from-beginning"),
    Step("console-consumer --topic T-y --max-messages 1 --offset 0"),
    Step("console-consumer --max-messages 1"),
    Step("consumer-groups --describe --group G"),
    Step("consumer-groups --describe --group G --members"),
    Step("consumer-groups --describe --group G-none", in_both=False),
    Step(
        "consumer-groups --reset-offsets --group G --topic T-y --to-earliest --dry-run",
        in_both=False,
    ),
    Step(
        "consumer-groups --reset-offsets --group G --topic T-y --to-earliest --execute",
        in_both=False,
    ),
    Step("consumer-groups --describe --group G --offsets"),
    Step(
        "consumer-groups --reset-offsets --group G --all-topics --shift-by 1 --execute",
        in_both=False,
    ),
    Step(
        "consumer-groups --reset-offsets --group G --topic T-y:0 --to-offset 9 --export --dry-run"
    ),
    Step(
        "consumer-groups --reset-offsets --group G --all-topics --to-current --execute",
        in_both=False,
    ),
    Step(
        "consumer-groups --reset-offsets --group G-none --all-topics --to-latest --dry-run",
        in_both=False,
    ),
    Step("consumer-groups --describe --group G --state", in_both=False),
    Step("consumer-groups --describe --group G --state --verbose", in_both=False),
    Step("consumer-groups --describe --group G-none --state", in_both=False),
    Step("consumer-groups --describe --group G --members --verbose", in_both=False),
    Step("consumer-groups --describe --group G --members --state"),
    Step("consumer-groups --describe --group G --verbose", in_both=False),
    Step(
        "consumer-groups --reset-offsets --group G-y --topic T-y --to-earliest --execute",
        in_both=False,
    ),
    Step("consumer-groups --delete-offsets --group G-y --topic T-y:9", in_both=False),
    Step("consumer-groups --delete-offsets --group G-y --topic T-none", in_both=False),
    Step("consumer-groups --delete-offsets --group G-none --topic T-y", in_both=False),
    Step("consumer-groups --delete-offsets --group G-y --topic T-y:0", in_both=False),
    Step("consumer-groups --describe --group G-y --offsets", in_both=False),
    Step("consumer-groups --delete-offsets --group G"),
    Step("consumer-groups --delete-offsets --all-groups --topic T"),
    Step("consumer-groups --delete --group G"),
    Step("consumer-groups --delete --group G --group G-none", in_both=False),
]


def named(text: str, side: str) -> str:
    return re.sub(r"\b[TG](?=\b|-none|-y)", lambda found: f"{side}{found[0].lower()}", text)


def plain(out: str, side: str) -> list[str]:
    """Return what was printed without the names of this side, and in an order of its own: Java's
    hash maps have another each time.
    """
    lines = OWN.sub("", out.replace(side, "")).splitlines()
    return sorted(line for line in lines if "deprecated" not in line)


class Side:
    """Takes steps with one of the two kinds of tools."""

    def __init__(self, bootstrap: str, version: str | None) -> None:
        """`version`: of Apache Kafka; None: ours. All names have the same length, as tables have."""
        self.name = f"n{uuid.uuid4().hex[:8]}"
        self._bootstrap, self._version = bootstrap, version

    def take(self, step: Step) -> tuple[int, list[str]]:
        """Exit code, and what was printed on standard output."""
        tool, *rest = named(step.line, self.name).split()
        arguments = ["--bootstrap-server", self._bootstrap, *rest]
        arguments += [named(word, self.name) for word in step.more]
        if self._version is None:
            ours = run("kafka-tool", tool, *arguments, stdin=step.stdin or "")
            assert "Traceback" not in ours.err, ours
            return ours.code, plain(ours.out, self.name)
        main_class = CLASSES[tool]
        if self._version == ZOOKEEPER_LINE:
            main_class = OF_3_9.get(tool, main_class)
        done = run_tool(main_class, *arguments, version=self._version, stdin=step.stdin)
        return done.returncode, plain(done.stdout, self.name)


@pytest.fixture(scope="module")
def by_us(bootstrap: str) -> list[tuple[int, list[str]]]:
    """How each step ends with our tools."""
    side = Side(bootstrap, None)
    return [side.take(step) for step in STEPS]


@pytest.mark.parametrize("version", [NEWEST, ZOOKEEPER_LINE])
def test_each_step_prints_and_ends_as_with_kafkas_own_tools(
    one_broker: None, bootstrap: str, by_us: list[tuple[int, list[str]]], version: str
) -> None:
    side = Side(bootstrap, version)
    by_java = [side.take(step) for step in STEPS]

    differing = [
        (step.line, java, us)
        for step, java, us in zip(STEPS, by_java, by_us, strict=True)
        if java != us and (version == NEWEST or step.in_both)
    ]
    assert differing == []


def test_brokers_tell_the_same_versions_as_to_kafkas_own_tool(
    one_broker: None, bootstrap: str
) -> None:
    by_java = run_tool(CLASSES["broker-api-versions"], "--bootstrap-server", bootstrap)
    by_us = run("kafka-tool", "broker-api-versions", "--bootstrap-server", bootstrap)

    # Java's lists what it knows, and up to which version it would go itself.
    served = re.compile(r"^\t\w+\(\d+\): \d+(?: to \d+)?", re.MULTILINE)
    assert by_us.out.splitlines()[0] == by_java.stdout.splitlines()[0]
    assert set(served.findall(by_java.stdout)) <= set(served.findall(by_us.out))
    assert by_us.out.splitlines()[-1] == by_java.stdout.splitlines()[-1] == ")"


def test_the_time_of_a_record_is_told_by_who_gave_it(
    one_broker: None, bootstrap: str, topic: str
) -> None:
    at = ("--bootstrap-server", bootstrap, "--topic", topic)
    run("kafka-tool", "topics", "--create", *at, "--config", "message.timestamp.type=LogAppendTime")
    run("kafka-tool", "console-producer", *at, stdin="a\n")
    read = (*at, "--from-beginning", "--max-messages", "1", "--property", "print.timestamp=true")

    by_java = run_tool(CLASSES["console-consumer"], *read)
    by_us = run("kafka-tool", "console-consumer", *read)

    assert by_us.out.startswith("LogAppendTime:")
    assert by_us.lines() == by_java.stdout.splitlines()[1:]  # after a word on --property


OF_A_LIVING_GROUP = [
    "--describe --group G --state",
    "--describe --group G --state --verbose",
    "--describe --group G --members",
    "--describe --group G --members --verbose",
    "--describe --group G --verbose",
    "--describe --group G",
    "--delete-offsets --group G --topic T",
    "--delete-offsets --group G --topic T:0",
    "--delete --group G",
    "--list --type",
    "--list --type classic",
    "--list --type consumer",
    "--list --state",
    "--list --state --type",
    "--list --type bogus",
    "--list --state bogus",
]


def test_groups_with_members_are_told_as_with_kafkas_own_tool(
    one_broker: None, bootstrap: str, topic: str
) -> None:
    topic = f"{topic}-{'long' * 9}"
    create_topic(bootstrap, topic, 2)
    group = f"{topic}-group"
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    producer.send(topic, b"v", partition=1).get(30)
    producer.close()
    consumer = KafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=group, client_id="a-client",
        enable_auto_commit=False, auto_offset_reset="earliest",
        metadata_max_age_ms=1_000,  # it may join before it has heard of the topic
    )  # fmt: skip
    until(lambda: consumer.poll(100))
    consumer.commit()

    differing = []
    for line in OF_A_LIVING_GROUP:
        words = line.replace("G", group).replace("T", topic).split()
        words = ["--bootstrap-server", bootstrap, *words]
        by_java = run_tool(CLASSES["consumer-groups"], *words)
        by_us = run("kafka-tool", "consumer-groups", *words)
        told = [(done, plain(out, "")) for done, out in (
            (by_java.returncode, by_java.stdout), (by_us.code, by_us.out))]  # fmt: skip
        if told[0] != told[1]:
            differing.append((line, *told))
    consumer.close()

    assert differing == []


@pytest.mark.parametrize("tool", ["topics", "kafka-topics", "kafka-topics.sh"])
def test_what_is_not_served_is_said_by_its_name(bootstrap: str, tool: str) -> None:
    done = run("kafka-tool", tool, "--list", "--zookeeper", "localhost:2181")

    assert done.refused(1) == "Error: kafka-topics: --zookeeper is not served here"


def test_no_broker_is_an_error_of_any_tool() -> None:
    done = run("kafka-tool", "topics", "--list", "--bootstrap-server", UNUSED)

    assert "cannot connect to 127.0.0.1:1" in done.refused(1)
