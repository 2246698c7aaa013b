"""What is in docker/, as far as it can be seen without an engine: the script that a container runs,
and what the compose files say.
"""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import click
import pytest

from compat_tests.running.apache_kafka import free_port
from kbroker.cli.command_line import cli
from kbroker.cli.kafka_tools.command import TOOLS
from kbroker.server.start.settings_sources import SettingSources, load_settings
from kbroker.server.start.start_refusals import refusals_of
from tests.integration.container_environments import SEVERAL_NODES, SINGLE_NODES, Form
from tests.integration.dockerfile import Stage, stages, with_bases

DOCKER = Path(__file__).resolve().parents[2] / "docker"
COMPOSE = sorted(DOCKER.glob("compose*.yaml"))
RUN = DOCKER / "run"
HEALTHCHECK = DOCKER / "healthcheck"
STAGES = [pytest.param(stage, id=name) for name, stage in stages().items()]
READY = "Kafka Server started. Transitioning from RECOVERY to RUNNING.\n"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
# As the module of Testcontainers for Java starts apache/kafka; the ports are free ones.
TESTCONTAINERS = {
    "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
    "KAFKA_LISTENERS": "PLAINTEXT://:0,BROKER://:0,CONTROLLER://:0",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_NODE_ID": "1",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "1",
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": "9223372036854775807",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
    "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:32768,BROKER://3f2a9c:9093",
}


def environments(path: Path) -> list[dict[str, str]]:
    """Settings of each service of a compose file, with those that services share."""

    def named(text: str) -> dict[str, str]:
        return dict(re.findall(r"^ +(K(?:AFKA|BROKER)_\w+): (.+)$", text, re.MULTILINE))

    shared, _, services = path.read_text().partition("\nservices:\n")
    return [{**named(shared), **named(each)} for each in re.split(r"\n(?=  \S)", services)]


def commands(path: Path) -> list[list[str]]:
    text = re.sub(r">-\n\s+|\n {6}(?=--)", " ", path.read_text())
    return [shlex.split(line) for line in re.findall(r"^ +command: +kbroker (.+)$", text, re.M)]


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables alone, with a way to the programs."""
    return {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", **variables}


def started(tmp_path: Path, **variables: str) -> subprocess.Popen[str]:
    """The script of the container, with nothing else in its environment."""
    return subprocess.Popen(
        [RUN],
        env=environment(variables),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def kbroker(*words: str, directory: Path) -> None:
    """Run a command in the directory, which has to succeed."""
    command = [sys.executable, "-m", "kbroker.cli", *words]
    subprocess.run(command, cwd=directory, capture_output=True, check=True)


def settings_given(
    tmp_path: Path, *arguments: str, script: Path = RUN, **variables: str
) -> dict[str, str]:
    """Return the settings that the script gives to the command, by variable."""
    command = tmp_path / "kbroker"
    command.write_text('#!/bin/sh\necho "COMMAND=$@"\nenv\n')
    command.chmod(0o755)
    output = subprocess.run(
        [script, *arguments],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "HOSTNAME": "3f2a9c", **variables},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return dict(re.findall(r"^((?:KAFKA_|COMMAND|CLUSTER_ID)\w*)=(.*)$", output, re.MULTILINE))


def test_a_container_runs_the_broker_in_its_own_process(tmp_path: Path) -> None:
    variables = {
        "KAFKA_LISTENERS": "PLAINTEXT://127.0.0.1:0",
        "KAFKA_LOG_DIRS": str(tmp_path / "d"),
    }
    with started(tmp_path, **variables) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("listening on 127.0.0.1:")
        assert process.stdout.readline() == READY

        process.send_signal(signal.SIGTERM)

        assert process.wait(20) == 0
    assert (tmp_path / "d" / "meta.properties").exists()


def test_a_container_that_cannot_start_says_why(tmp_path: Path) -> None:
    with started(tmp_path, KAFKA_NUM_PARTITIONS="0", KAFKA_LOG_DIRS=str(tmp_path)) as process:
        output, said = process.communicate(timeout=20)

    assert process.returncode == 2
    assert output == ""
    assert "num.partitions: Value must be at least 1" in said


def test_testcontainers_finds_the_words_that_it_waits_for(tmp_path: Path) -> None:
    with started(tmp_path, **TESTCONTAINERS, KAFKA_LOG_DIRS=str(tmp_path / "d")) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        process.send_signal(signal.SIGTERM)
        rest = process.stdout.read()

    assert [line.partition(" on ")[0] for line in lines] == ["listening", READY, "listening"]
    assert rest == ""


def test_without_settings_host_and_containers_have_a_listener_each(tmp_path: Path) -> None:
    assert settings_given(tmp_path) == {
        "COMMAND": "start",
        "KAFKA_LOG_DIRS": "/var/lib/kafka/data",
        "KAFKA_LISTENERS": "HOST://:9092,PLAINTEXT://:19092",
        "KAFKA_ADVERTISED_LISTENERS": "HOST://localhost:9092,PLAINTEXT://3f2a9c:19092",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "HOST:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    }


@pytest.mark.parametrize("prefix", ["KAFKA_", "KAFKA_CFG_"])
def test_listeners_follow_what_is_advertised(tmp_path: Path, prefix: str) -> None:
    name = f"{prefix}ADVERTISED_LISTENERS"
    given = settings_given(tmp_path, **{name: "A://me.example:9092,B://[::1]:9093"})

    assert given["KAFKA_LISTENERS"] == "A://:9092,B://:9093"
    assert "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP" not in given


def test_listeners_that_are_set_stay_as_they_are(tmp_path: Path) -> None:
    variables = {"KAFKA_LISTENERS": "PLAINTEXT://:29092", "KAFKA_CFG_LOG_DIRS": "/data"}

    assert settings_given(tmp_path, **variables) == {"COMMAND": "start", **variables}


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"KAFKA_LISTENERS": "PLAINTEXT://:29092"},
        {"KAFKA_CFG_ADVERTISED_LISTENERS": "A://me.example:9094,B://me.example:9093"},
    ],
)
def test_the_health_check_has_the_settings_of_the_broker(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    of_broker = settings_given(tmp_path, **variables)
    of_check = settings_given(tmp_path, script=HEALTHCHECK, **variables)

    assert (of_broker.pop("COMMAND"), of_check.pop("COMMAND")) == (
        "start",
        "wait --timeout 8 --settings -",
    )
    assert of_check == of_broker


def test_the_health_check_asks_the_listener_that_is_set(tmp_path: Path) -> None:
    variables = {
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_LISTENERS": f"CONTROLLER://:1,PLAINTEXT://127.0.0.1:{free_port()}",
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://elsewhere.example:9092",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_LOG_DIRS": str(tmp_path / "d"),
    }
    with started(tmp_path, **variables) as process:
        assert process.stdout is not None
        process.stdout.readline()

        check = subprocess.run(
            [HEALTHCHECK],
            env=environment(variables),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        process.send_signal(signal.SIGTERM)
        process.communicate()

    assert (check.returncode, check.stdout, check.stderr) == (0, "", "")


def test_users_and_certificates_of_variables_and_of_a_jaas_file_are_those_of_the_container(
    tmp_path: Path,
) -> None:
    kbroker("cert", "make", "secrets", directory=tmp_path)
    jaas = tmp_path / "jaas.conf"
    jaas.write_text(f'KafkaServer {{ {PLAIN} required user_bob="bob-secret"; }};')
    tls, plain = (f"127.0.0.1:{free_port()}" for _ in range(2))
    variables = {
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_LISTENERS": f"SASL_SSL://{tls},SASL_PLAINTEXT://{plain},CONTROLLER://:1",
        "KAFKA_ADVERTISED_LISTENERS": f"SASL_SSL://{tls},SASL_PLAINTEXT://{plain}",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": (
            "CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"
        ),
        "KAFKA_INTER_BROKER_LISTENER_NAME": "SASL_SSL",
        "KAFKA_SASL_ENABLED_MECHANISMS": "PLAIN",
        "KAFKA_SASL_MECHANISM_INTER_BROKER_PROTOCOL": "PLAIN",
        "KAFKA_LISTENER_NAME_SASL__SSL_PLAIN_SASL_JAAS_CONFIG": (
            f'{PLAIN} required username="broker" password="x" user_broker="x" user_ann="ann-secret";'
        ),
        "KAFKA_SSL_KEYSTORE_TYPE": "PEM",
        "KAFKA_SSL_KEYSTORE_LOCATION": str(tmp_path / "secrets" / "broker.pem"),
        "KAFKA_OPTS": f"-Djava.security.auth.login.config={jaas}",
        "KAFKA_LOG_DIRS": str(tmp_path / "d"),
        "KBROKER_HTTP_LISTENERS": "127.0.0.1:0",
    }
    with started(tmp_path, **variables) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        try:
            for user, address, more in (
                ("ann", tls, "security.protocol=SASL_SSL\nssl.ca.location=secrets/ca.pem"),
                ("bob", plain, "security.protocol=SASL_PLAINTEXT"),
            ):
                login = f"sasl.username={user}\nsasl.password={user}-secret\nsasl.mechanism=PLAIN"
                (tmp_path / user).write_text(f"{login}\n{more}\n")
                there = ("--bootstrap", address, "--command-config", user)
                kbroker("topic", "create", user, *there, directory=tmp_path)
            subprocess.run([HEALTHCHECK], env=environment(variables), cwd=tmp_path, check=True)
        finally:
            process.send_signal(signal.SIGTERM)
        _, said = process.communicate()

    assert READY in lines
    assert [line for line in said.splitlines() if "closed connection" in line] == []


@pytest.mark.parametrize("name", ["kafka-topics.sh", "kafka-topics"])
def test_a_tool_is_that_of_the_name_by_which_it_is_called(tmp_path: Path, name: str) -> None:
    (tmp_path / name).symlink_to(DOCKER / "kafka-tool")

    given = settings_given(tmp_path, "--topic", "a b", script=tmp_path / name)

    assert given["COMMAND"] == f"kafka-tool {name} --topic a b"


def test_the_image_has_all_of_kafkas_tools_that_are_served() -> None:
    (text,) = (text for text in stages()["base"].texts("RUN") if "/opt/kafka/bin" in text)
    linked = re.search(r"for tool in ([a-z -]+);", text)

    assert linked is not None
    assert linked[1].split() == sorted(TOOLS)
    assert re.findall(r"ln -s kafka-tool \"?(\S+?)\"?(?: |;|$)", text) == [
        "/opt/kafka/bin/kafka-$tool",
        "/opt/kafka/bin/kafka-$tool.sh",
    ]
    assert "ln -s /opt/kafka/bin /opt/bitnami/kafka/bin" in text  # where compose files look, too


def test_arguments_are_variables(tmp_path: Path) -> None:
    given = settings_given(tmp_path, "KAFKA_NUM_PARTITIONS=3", "CLUSTER_ID=a b")

    assert given["KAFKA_NUM_PARTITIONS"] == "3"
    assert given["CLUSTER_ID"] == "a b"


def test_the_default_addresses_are_settings_of_a_broker(tmp_path: Path) -> None:
    given = settings_given(tmp_path)
    given.pop("COMMAND")

    assert load_settings(SettingSources(environment=given)).warnings == ()


@pytest.mark.parametrize("form", SINGLE_NODES.values(), ids=SINGLE_NODES)
def test_the_environment_of_a_single_node_of_another_image_makes_the_same_broker(
    tmp_path: Path, form: Form
) -> None:
    given = settings_given(tmp_path, **form.variables)
    given.pop("COMMAND")

    loaded = load_settings(SettingSources(environment=given))
    config = loaded.config

    assert ",".join(map(str, config.end_points())) == form.listeners
    assert ",".join(map(str, config.advertised_end_points())) == form.advertised
    assert loaded.cluster_id == form.cluster_id
    assert loaded.warnings == form.notes
    assert list(refusals_of(config)) == []


@pytest.mark.parametrize(("variables", "reason"), SEVERAL_NODES.values(), ids=SEVERAL_NODES)
def test_one_of_several_nodes_of_another_image_does_not_become_a_cluster_of_its_own(
    tmp_path: Path, variables: Mapping[str, str], reason: str
) -> None:
    with started(tmp_path, **variables, KAFKA_LOG_DIRS=str(tmp_path / "d")) as process:
        output, said = process.communicate(timeout=20)

    assert process.returncode == 2
    assert output == ""
    assert reason in said
    assert "`kbroker start --brokers 3`" in said
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize("path", COMPOSE, ids=lambda path: path.name)
def test_compose_files_name_settings_that_have_an_effect(tmp_path: Path, path: Path) -> None:
    for environment in environments(path):
        given = settings_given(tmp_path, **environment)
        assert given.keys() >= {name for name in environment if name.startswith("KAFKA_")}

        assert load_settings(SettingSources(environment=given)).warnings == ()


@pytest.mark.parametrize("path", COMPOSE, ids=lambda path: path.name)
def test_compose_files_have_settings_at_all(path: Path) -> None:
    assert any(environments(path))


def test_the_shown_container_with_logins_starts_without_a_warning(tmp_path: Path) -> None:
    (page,) = (DOCKER.parent / "docs").glob("testing.md")
    (environment,) = (each for each in environments(page) if "KAFKA_SSL_KEYSTORE_TYPE" in each)
    given = settings_given(tmp_path, **environment)

    loaded = load_settings(SettingSources(environment=given | environment))
    assert loaded.warnings == ()
    assert loaded.config.end_points()[0].security_protocol == "SASL_SSL"


def test_compose_files_run_commands_that_exist() -> None:
    found = [words for path in COMPOSE for words in commands(path)]
    assert [words[:2] for words in found] == [["topic", "create"], ["pipeline", "archive"]]

    for words in found:
        command: click.Command = cli
        context = click.Context(cli)
        for word in words[:2]:
            assert isinstance(command, click.Group)
            command = command.get_command(context, word) or cli
        options = {name for parameter in command.params for name in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_is_built_from_named_versions_and_leaves_no_caches(stage: Stage) -> None:
    assert stage.base in stages() or re.fullmatch(r"\S+:\d\S*", stage.base)
    for text in stage.texts("RUN"):
        steps = [step.split() for step in text.split("&&")]
        for step in steps:
            if step[0].endswith("pip"):
                assert "--no-cache-dir" in step
            if step[:2] == ["apt-get", "install"]:
                assert {"--yes", "--no-install-recommends"} <= set(step)
                assert "rm -rf /var/lib/apt/lists/*" in text
    assert not stage.texts("ADD")


@pytest.mark.parametrize("name", ["broker", "spark"])
def test_an_image_has_a_user_without_rights_and_commands_without_a_shell(name: str) -> None:
    chain = with_bases(name)

    assert [text for stage in chain for text in stage.texts("USER")] == ["1000"]
    for word in ("CMD", "HEALTHCHECK"):
        (text,) = (text for stage in chain for text in stage.texts(word))
        assert text.endswith('"]')


@pytest.mark.parametrize("stage", STAGES)
def test_what_is_copied_is_there_and_not_ignored(stage: Stage) -> None:
    ignored = (DOCKER / "Dockerfile.dockerignore").read_text().split()
    copies = [each for each in stage.instructions if each.word == "COPY"]

    assert ignored[0] == "*"
    for copy in copies:
        for source in copy.words()[:-1]:
            if "from" not in copy.options:
                assert f"!{source}" in ignored
                assert (DOCKER.parent / source).exists()
