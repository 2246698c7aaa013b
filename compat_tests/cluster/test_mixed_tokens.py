"""Delegation tokens of a cluster in which kbroker and Apache Kafka 3.9.2 serve side by side, by raw
requests, by Kafka's own tools, and by clients of Java that log in with them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from kazoo.exceptions import NoNodeError

from compat_tests.answers.logins import MODULE
from compat_tests.answers.token_steps import PASSWORDS, create
from compat_tests.cluster.mixed_tokens import OURS, THEIRS, Mixed, mixed, play, shown
from compat_tests.commands.tool_runner import run_tool
from compat_tests.running.apache_kafka import NEWEST, ZOOKEEPER_LINE
from compat_tests.running.waiting import until

pytestmark = pytest.mark.java

TOOL = "org.apache.kafka.tools.DelegationTokenCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"


@pytest.fixture(scope="module")
def brokers(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mixed]:
    if kind != "kbroker":
        pytest.skip("starts a cluster of both kinds")
    with mixed(tmp_path_factory.mktemp("tokens")) as found:
        yield found


def properties(folder: Path, mechanism: str, entry: str) -> str:
    """The file of a client."""
    path = folder / f"{mechanism}.properties"
    path.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={entry};\n"
    )
    return str(path)


def test_tokens_made_at_either_are_known_and_log_in_at_both(brokers: Mixed) -> None:
    assert play(brokers, seed=7, edits=24) < 5  # a second, on a machine that has nothing else to do


def printed(brokers: Mixed, kind: str, version: str, file: str, *action: str) -> str:
    """Run the tool; returns its words, without those that differ each time."""
    address = f"127.0.0.1:{brokers.inside[kind]}"
    done = run_tool(
        TOOL, "--bootstrap-server", address, "--command-config", file, *action, version=version
    )
    lines = (done.stdout + done.stderr).splitlines(keepends=True)
    said = "".join(line for line in lines if not line.startswith(("SLF4J", "log4j")))
    said = re.sub(r"\b[\w-]{22}(?= |\n|$)", "ID", said)
    said = re.sub(r"[\w+/]{86}==", "HMAC", said)
    said = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d", "TIME", said)
    return re.sub(r"org\.apache\.kafka\.\S*\n(?:\s+at .*\n)+", "", said)


@pytest.mark.parametrize("version", [ZOOKEEPER_LINE, NEWEST])
def test_kafkas_tool_prints_here_what_it_prints_there(
    brokers: Mixed, tmp_path: Path, version: str
) -> None:
    ann = properties(
        tmp_path, "PLAIN",
        f'{MODULE}.plain.PlainLoginModule required username="ann" password="{PASSWORDS["ann"]}"',
    )  # fmt: skip
    said: dict[str, list[str]] = {}
    for kind in (OURS, THEIRS):
        stage = brokers.stage(kind)
        create("ann", "a")(stage)
        token = stage.tokens["a"]
        until(partial(is_known, brokers, token.token_id), "both know it")  # it may ask either
        hmac = token.password
        said[kind] = [
            printed(brokers, kind, version, ann, *action)
            for action in (
                ("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob"),
                ("--describe", "--owner-principal", "User:zoe"),
                ("--renew", "--renew-time-period", "-1", "--hmac", hmac),
                ("--expire", "--expiry-time-period", "-1", "--hmac", hmac),
                ("--expire", "--expiry-time-period", "-1", "--hmac", "AAAA"),
            )
        ]
    assert said[OURS] == said[THEIRS]
    assert "Created delegation token with tokenId : ID" in said[OURS][0]


@pytest.mark.parametrize("version", [ZOOKEEPER_LINE, NEWEST])
def test_clients_of_java_log_in_by_tokens(brokers: Mixed, tmp_path: Path, version: str) -> None:
    stage = brokers.stage(THEIRS)
    create("ann", "a")(stage)
    token = stage.tokens["a"]
    until(partial(is_known, brokers, token.token_id), "both know it")
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        entry = (
            f'{MODULE}.scram.ScramLoginModule required username="{token.token_id}" '
            f'password="{token.password}" tokenauth="true"'
        )
        file = properties(tmp_path, mechanism, entry)
        for kind in (OURS, THEIRS):
            listed = run_tool(
                TOPICS, "--list",
                "--bootstrap-server", f"127.0.0.1:{brokers.inside[kind]}", "--command-config", file,
                version=version,
            )  # fmt: skip
            assert (listed.returncode, listed.stdout.split()) == (0, ["t"]), listed


def test_the_controller_removes_what_has_expired_whichever_it_is(brokers: Mixed) -> None:
    stages = {kind: brokers.stage(kind) for kind in (OURS, THEIRS)}

    def made_and_gone(kind: str) -> None:
        create("ann", "a", longest_ms=1)(stages[kind])
        token_id = stages[kind].tokens["a"].token_id
        until(lambda: is_gone(brokers, token_id), "it is removed")

    for kind in (OURS, THEIRS):
        made_and_gone(kind)
    brokers.ours.stop()  # the last test: Apache Kafka is controller from now on
    made_and_gone(THEIRS)


def is_known(brokers: Mixed, token_id: str) -> bool:
    return all(token_id in shown(brokers.stage(kind)) for kind in (OURS, THEIRS))


def is_gone(brokers: Mixed, token_id: str) -> bool:
    try:
        brokers.node(token_id)
    except NoNodeError:
        return True
    return False
