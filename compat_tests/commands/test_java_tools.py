"""Apache Kafka's own command-line tools, the newest release and the last of the 3.x line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from compat_tests.clients.every_client import CODECS
from compat_tests.commands.tool_runner import run_tool
from compat_tests.conftest import BrokerProcess
from compat_tests.running import apache_kafka
from compat_tests.running.waiting import until
from compat_tests.wire.wire_client import WireClient

pytestmark = pytest.mark.java

VERSIONS = (apache_kafka.NEWEST, apache_kafka.ZOOKEEPER_LINE)
PRODUCER = {
    apache_kafka.NEWEST: "org.apache.kafka.tools.ConsoleProducer",
    apache_kafka.ZOOKEEPER_LINE: "kafka.tools.ConsoleProducer",
}
ACLS = {
    apache_kafka.NEWEST: "org.apache.kafka.tools.AclCommand",
    apache_kafka.ZOOKEEPER_LINE: "kafka.admin.AclCommand",
}
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
CONFIGS = "kafka.admin.ConfigCommand"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"


def tool(main_class: str, *args: str, version: str, stdin: str | None = None) -> str:
    done = run_tool(main_class, *args, version=version, stdin=stdin)
    assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-1500:]
    return done.stdout


def produce(bootstrap: str, topic: str, lines: str, version: str, *args: str) -> None:
    common = ("--bootstrap-server", bootstrap, "--topic", topic)
    tool(PRODUCER[version], *common, *args, version=version, stdin=lines)


def consume(bootstrap: str, topic: str, count: int, version: str, *args: str) -> list[str]:
    common = (
        "--bootstrap-server",
        bootstrap,
        "--topic",
        topic,
        "--from-beginning",
        "--timeout-ms",
        "20000",
    )
    return tool(
        CONSUMER, *common, "--max-messages", str(count), *args, version=version
    ).splitlines()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("codec", CODECS)
def test_the_console_tools_write_and_read(
    bootstrap: str, topic: str, records: int, version: str, codec: str
) -> None:
    lines = [f"value {index}" for index in range(records)]

    produce(bootstrap, topic, "\n".join(lines) + "\n", version, "--compression-codec", codec)
    read = consume(bootstrap, topic, records, version)

    assert read == lines


@pytest.mark.parametrize("version", VERSIONS)
def test_keys_headers_and_nulls_are_shown(bootstrap: str, topic: str, version: str) -> None:
    properties = ("parse.key=true", "parse.headers=true", "null.marker=NULL")
    flags = [part for text in properties for part in ("--property", text)]
    produce(bootstrap, topic, "h:1,i:2\tk\tv\nh:3\tk2\tNULL\n", version, *flags)

    shown = ("print.key=true", "print.headers=true", "print.offset=true", "print.partition=true")
    read = consume(
        bootstrap, topic, 2, version, *[part for text in shown for part in ("--property", text)]
    )

    assert read[-2:] == [
        "Partition:0\tOffset:0\th:1,i:2\tk\tv",
        "Partition:0\tOffset:1\th:3\tk2\tnull",
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_topics_are_created_described_and_deleted(bootstrap: str, topic: str, version: str) -> None:
    def topics(*args: str) -> str:
        return tool(
            "org.apache.kafka.tools.TopicCommand",
            "--bootstrap-server",
            bootstrap,
            *args,
            version=version,
        )

    created = topics(
        "--create", "--topic", topic, "--partitions", "3", "--config", "retention.ms=600000"
    )
    described = topics("--describe", "--topic", topic)
    topics("--alter", "--topic", topic, "--partitions", "4")
    grown = topics("--describe", "--topic", topic)
    topics("--delete", "--topic", topic)
    left = topics("--list")

    assert f"Created topic {topic}." in created
    assert "PartitionCount: 3" in described
    assert "retention.ms=600000" in described
    assert "PartitionCount: 4" in grown
    assert topic not in left.split()


@pytest.mark.parametrize("version", VERSIONS)
def test_elections_that_are_not_needed_are_told(bootstrap: str, topic: str, version: str) -> None:
    common = ("--bootstrap-server", bootstrap)
    produce(bootstrap, topic, "value\n", version)

    said = [
        tool("org.apache.kafka.tools.LeaderElectionCommand", *common, *args, version=version)
        for args in (
            ("--election-type", "preferred", "--topic", topic, "--partition", "0"),
            ("--election-type", "unclean", "--topic", topic, "--partition", "0"),
        )
    ]

    assert said == [f"Valid replica already elected for partitions {topic}-0\n"] * 2


@pytest.mark.parametrize("version", VERSIONS)
def test_a_group_is_listed_and_described_with_its_lag(
    bootstrap: str, topic: str, group: str, version: str
) -> None:
    produce(bootstrap, topic, "a\nb\nc\n", version)
    consume(bootstrap, topic, 2, version, "--group", group)

    listed = tool(
        GROUPS, "--bootstrap-server", bootstrap, "--list", version=version,
    )  # fmt: skip
    described = tool(
        GROUPS, "--bootstrap-server", bootstrap, "--describe", "--group", group, version=version,
    )  # fmt: skip

    row = next(line.split() for line in described.splitlines() if topic in line)
    assert group in listed.split()
    assert row[:6] == [group, topic, "0", "2", "3", "1"]


@pytest.mark.parametrize("version", VERSIONS)
def test_offsets_are_told_per_partition(bootstrap: str, topic: str, version: str) -> None:
    produce(bootstrap, topic, "a\nb\nc\n", version)

    told = tool(
        "org.apache.kafka.tools.GetOffsetShell",
        "--bootstrap-server", bootstrap, "--topic", topic, version=version,
    )  # fmt: skip

    assert f"{topic}:0:3" in told.split()


def test_the_verifiable_producer_is_acknowledged_for_every_record(
    bootstrap: str, topic: str
) -> None:
    done = apache_kafka.run_tool(  # it tells the sum when Java ends
        "org.apache.kafka.tools.VerifiableProducer",
        "--bootstrap-server", bootstrap, "--topic", topic, "--max-messages", "1000", "--acks", "-1",
    )  # fmt: skip

    assert done.returncode == 0, done.stderr[-1500:]
    assert '"sent":1000,"acked":1000' in done.stdout.replace(" ", "")


@pytest.mark.parametrize("version", VERSIONS)
def test_levels_of_loggers_are_shown_and_altered(bootstrap: str, version: str) -> None:
    def configs(*args: str) -> str:
        whose = ("--entity-type", "broker-loggers", "--entity-name", broker_id)
        return tool(CONFIGS, "--bootstrap-server", bootstrap, *args, *whose, version=version)

    client = WireClient(bootstrap)
    broker_id = str(client.node_id())
    client.close()
    (level,) = re.findall(r"^  root=(\w+) ", configs("--describe"), re.MULTILINE)
    other = "ERROR" if level == "WARN" else "WARN"

    configs("--alter", "--add-config", f"root={other}")

    assert f"  root={other} " in configs("--describe")
    configs("--alter", "--add-config", f"root={level}")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("action", [
    ("--list",),
    ("--add", "--allow-principal", "User:a", "--operation", "Read", "--topic", "t"),
    ("--remove", "--force", "--topic", "t"),
], ids=["list", "add", "remove"])  # fmt: skip
def test_access_rules_are_refused_with_the_reason(
    bootstrap: str, version: str, action: tuple[str, ...]
) -> None:
    done = run_tool(ACLS[version], "--bootstrap-server", bootstrap, *action, version=version)

    said = done.stdout + done.stderr
    assert "SecurityDisabledException: No Authorizer is configured" in said


@pytest.mark.parametrize("version", VERSIONS)
def test_no_partition_moves(bootstrap: str, version: str) -> None:
    said = tool(
        REASSIGN,
        "--bootstrap-server", bootstrap, "--list", version=version,
    )  # fmt: skip

    assert "No partition reassignments found." in said


@pytest.mark.parametrize("version", VERSIONS)
def test_partitions_move_between_the_directories_of_a_broker(
    own_broker: Callable[..., BrokerProcess], tmp_path: Path, topic: str, version: str
) -> None:
    paths = [str(tmp_path / "first"), str(tmp_path / "second")]
    broker = own_broker("--override", f"log.dirs={','.join(paths)}", "--override", "broker.id=0")
    lines = [f"value {index}" for index in range(500)]
    produce(broker.bootstrap, topic, "\n".join(lines) + "\n", version)
    moves = tmp_path / "moves.json"
    tell = ("--bootstrap-server", broker.bootstrap, "--reassignment-json-file", str(moves))
    for path in (*paths, paths[0]):
        partition = {"topic": topic, "partition": 0, "replicas": [0], "log_dirs": [path]}
        moves.write_text(json.dumps({"version": 1, "partitions": [partition]}))
        tool(REASSIGN, *tell, "--execute", version=version)

        def is_done() -> bool:
            said = tool(REASSIGN, *tell, "--verify", version=version)
            return f"Reassignment of replica {topic}-0-0 completed successfully." in said

        until(is_done, "the move")
        assert (Path(path) / f"{topic}-0").is_dir()
        described = tool(
            "org.apache.kafka.tools.LogDirsCommand",
            "--bootstrap-server", broker.bootstrap, "--describe", version=version,
        )  # fmt: skip
        assert '"isFuture":true' not in described

    assert consume(broker.bootstrap, topic, 500, version) == lines


@pytest.mark.parametrize("version", VERSIONS)
def test_offsets_of_a_group_are_deleted(
    bootstrap: str, topic: str, group: str, version: str
) -> None:
    produce(bootstrap, topic, "a\nb\nc\n", version)
    consume(bootstrap, topic, 2, version, "--group", group)
    common = ("--bootstrap-server", bootstrap, "--group", group)

    said = tool(GROUPS, *common, "--delete-offsets", "--topic", topic, version=version)
    described = run_tool(GROUPS, *common, "--describe", version=version)

    assert said.split()[-3:] == [topic, "0", "Successful"]
    assert topic not in described.stdout


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ["users", "clients", "ips"])
def test_users_clients_and_addresses_have_no_settings(
    bootstrap: str, version: str, kind: str
) -> None:
    told = tool(
        CONFIGS, "--bootstrap-server", bootstrap, "--describe", "--entity-type", kind,
        version=version,
    )  # fmt: skip

    assert told == ""


@pytest.mark.parametrize("version", VERSIONS)
def test_there_are_no_client_metrics(bootstrap: str, version: str) -> None:
    told = tool(
        "org.apache.kafka.tools.ClientMetricsCommand",
        "--bootstrap-server", bootstrap, "--list", version=version,
    )  # fmt: skip

    assert told.strip() == ""
