"""From what an operator asks for to a broker that runs until it is told to stop."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kbroker.errors import Trouble
from kbroker.log.directories.log_directory import LogDirectoryError
from kbroker.server.start.launch import (
    Hearer,
    StartOptions,
    UsageError,
    prepared,
    serve,
    server_of,
)
from kbroker.server.start.secure_directory import secure_directory

QUORUM = ("process.roles=broker,controller", "controller.quorum.voters=1@a:9093,2@b:9093")
SAID_OF_OPEN = (
    "whoever reaches PLAINTEXT://:0 can read and change everything; "
    "kbroker.open.listeners=true says that this is meant"
)


class ScriptedServer:
    """A server whose start takes as long as the test lets it."""

    def __init__(self) -> None:
        self.failed = asyncio.Event()
        self.failure: LogDirectoryError | None = None
        self.may_start = asyncio.Event()
        self.said: list[str] = []

    async def startup(self) -> None:
        try:
            await self.may_start.wait()
        except asyncio.CancelledError:
            self.said.append("start cancelled")
            raise
        self.said.append("started")

    async def shutdown(self) -> None:
        self.said.append("stopped")


def test_options_become_settings_by_kafkas_names(tmp_path: Path) -> None:
    options = StartOptions(
        listen=("127.0.0.1:1", "127.0.0.1:2"),
        data=str(tmp_path / "d"),
        overrides=("num.partitions=3",),
        zookeeper="z:1/k",
    )
    with prepared(options, {}) as launch:
        texts = launch.settings.config.texts

    assert texts["listeners"] == "PLAINTEXT://127.0.0.1:1,PLAINTEXT2://127.0.0.1:2"
    assert texts["listener.security.protocol.map"] == "PLAINTEXT:PLAINTEXT,PLAINTEXT2:PLAINTEXT"
    assert texts["log.dirs"] == str(tmp_path / "d")
    assert texts["num.partitions"] == "3"
    assert texts["zookeeper.connect"] == "z:1/k"
    assert launch.temporary is None
    assert launch.note_of_data() is None


def test_a_properties_file_is_weaker_than_the_environment_and_options(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=2\nlog.dirs=/from/file\nbroker.id=7\n")
    options = StartOptions(properties=str(file), overrides=("num.partitions=4",))

    with prepared(options, {"KAFKA_BROKER_ID": "8"}) as launch:
        texts = launch.settings.config.texts

    assert (texts["num.partitions"], texts["log.dirs"], texts["broker.id"]) == (
        "4", "/from/file", "8",
    )  # fmt: skip


def test_data_without_a_home_gets_one_that_goes_at_the_end() -> None:
    with prepared(StartOptions(), {}) as launch:
        assert launch.temporary is not None
        assert launch.settings.config.log.data_directories() == (launch.temporary,)
        assert Path(launch.temporary).is_dir()

    assert not Path(launch.temporary).exists()


def test_several_brokers_of_one_process_need_no_quorum() -> None:
    with prepared(StartOptions(overrides=QUORUM, brokers=2), {}) as launch:
        assert launch.settings.warnings == ()


def test_listeners_that_are_not_served_are_said_and_told_to_nobody() -> None:
    options = StartOptions(
        overrides=(
            "listeners=PLAINTEXT://:9092,CONTROLLER://:9093",
            "advertised.listeners=PLAINTEXT://me.test:9092,CONTROLLER://me.test:9093",
            "controller.listener.names=CONTROLLER",
        )
    )
    with prepared(options, {}) as launch:
        assert launch.note_of_controllers() == (
            "not listening for CONTROLLER (controller.listener.names): kbroker has no KRaft "
            "controller"
        )
        assert launch.note_of_addresses() == (
            "clients are given PLAINTEXT://me.test:9092 (advertised.listeners)"
        )
    with prepared(StartOptions(), {}) as launch:
        assert launch.note_of_controllers() is None


ZK_TLS = (
    "zookeeper.ssl.client.enable=true",
    "zookeeper.ssl.truststore.location=/no/such.pem",
)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (StartOptions(listen=("nowhere",)), "--listen 'nowhere' is not HOST:PORT"),
        (StartOptions(listen=("9095",)), "--listen '9095' is not HOST:PORT, did you mean :9095?"),
        (
            StartOptions(listen=("[::]:0",)),
            r"^--listen \[::\]:0 lets in everybody .*: --secure DIR asks",
        ),
        (StartOptions(listen=("127.0.0.1:0", ":0"), brokers=2), "^--listen :0 lets in everybody"),
        (StartOptions(overrides=("num.partitions",)), "is not KEY=VALUE"),
        (StartOptions(overrides=("num.partitions=x",)), "num.partitions"),
        (StartOptions(zookeeper=" "), "--zookeeper is empty"),
        (StartOptions(zookeeper="h:x"), "--zookeeper 'h:x' is not HOST:PORT"),
        (
            StartOptions(data="/d", overrides=("zookeeper.connect=h:x",)),
            "^zookeeper.connect: 'h:x' is not HOST:PORT",
        ),
        (
            StartOptions(data="/d", zookeeper="h:1", overrides=("broker.id=2000",)),
            "^broker.id=2000 is above reserved.broker.max.id=1000",
        ),
        (StartOptions(zookeeper="h:1", overrides=("zookeeper.set.acl=true",)), "needs a login"),
        (
            StartOptions(zookeeper="h:1", overrides=(*ZK_TLS, "zookeeper.ssl.crl.enable=true")),
            "zookeeper.ssl.crl.enable: no such check",
        ),
        (
            StartOptions(zookeeper="h:1", overrides=ZK_TLS),
            "zookeeper.ssl.truststore.location=/no/such.pem cannot be used: No such file",
        ),
        (StartOptions(data=""), "--data is empty: give a directory"),
        (StartOptions(profile="none"), "unknown profile none"),
        (StartOptions(properties="/no/such/file"), "cannot read /no/such/file: No such file"),
        (StartOptions(overrides=QUORUM), "^controller.quorum.voters names 2 nodes"),
        (StartOptions(adopt=True), "--adopt needs the directory to take over"),
        (StartOptions(adopt=True, data="/d", brokers=2), "leave out --brokers"),
        (StartOptions(adopt=True, data="/d", zookeeper="z:1"), "leave out --brokers"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_made(
    options: StartOptions, sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence), prepared(options, {}):
        pass


def make_certificates_in(path: Path) -> tuple[str, ...]:
    """Settings of a listener with TLS that other machines reach."""
    secured = secure_directory(str(path), [":0"], hosts=(), machine="m", now=datetime.now(UTC))
    stores = (f"{name}={text}" for name, text in secured.settings.items() if name[:4] == "ssl.")
    return ("listeners=SSL://:0", "security.inter.broker.protocol=SSL", *stores)


def test_open_listeners_are_obeyed_if_they_are_meant_or_with_a_warning_if_written_down(
    tmp_path: Path,
) -> None:
    options = StartOptions(listen=(":0",), is_open=True)
    with prepared(options, {}) as launch:
        assert launch.warnings() == ()
    with prepared(StartOptions(listen=(":0",)), {"KBROKER_OPEN_LISTENERS": "true"}) as launch:
        assert launch.warnings() == ()
    options = StartOptions(listen=("127.0.0.1:0",), overrides=("listeners=PLAINTEXT://:0",))
    with prepared(options, {}) as launch:
        assert launch.warnings() == (SAID_OF_OPEN,)
    with prepared(StartOptions(), {"KAFKA_LISTENERS": "PLAINTEXT://:0"}) as launch:
        assert launch.warnings() == (SAID_OF_OPEN,)
    certificates = make_certificates_in(tmp_path)
    with prepared(StartOptions(overrides=certificates), {}) as launch:
        assert launch.warnings() == (SAID_OF_OPEN.replace("PLAINTEXT", "SSL"),)
    with prepared(
        StartOptions(overrides=(*certificates, "ssl.client.auth=required")), {}
    ) as launch:
        assert launch.warnings() == ()
    with prepared(StartOptions(listen=("localhost:0", "[::1]:0")), {}) as launch:
        assert launch.warnings() == ()


@pytest.mark.parametrize("overrides", [QUORUM, ("process.roles=broker",)])
def test_a_node_of_a_quorum_is_told_where_more_is_said(overrides: tuple[str, ...]) -> None:
    with pytest.raises(UsageError) as refused, prepared(StartOptions(overrides=overrides), {}):
        pass

    assert refused.value.trouble is Trouble.KRAFT


async def test_a_server_runs_until_it_is_told_to_stop() -> None:
    server, stop = ScriptedServer(), asyncio.Event()
    server.may_start.set()

    def ready() -> None:
        server.said.append("ready")
        stop.set()

    await serve(server, stop, ready)  # type: ignore[arg-type]

    assert server.said == ["started", "ready", "stopped"]


async def test_a_stop_during_the_start_ends_it() -> None:
    server, stop = ScriptedServer(), asyncio.Event()
    stop.set()

    await serve(server, stop, lambda: server.said.append("ready"))  # type: ignore[arg-type]

    assert server.said == ["start cancelled", "stopped"]


async def test_a_failure_stops_the_server_and_is_told() -> None:
    server = ScriptedServer()
    server.may_start.set()

    def ready() -> None:
        server.failure = LogDirectoryError("No data directory is left")
        server.failed.set()

    with pytest.raises(LogDirectoryError, match="No data directory is left"):
        await serve(server, asyncio.Event(), ready)  # type: ignore[arg-type]

    assert server.said == ["started", "stopped"]


@pytest.mark.parametrize("brokers", [1, 2])
async def test_one_broker_or_several_serve_what_was_prepared(brokers: int, tmp_path: Path) -> None:
    options = StartOptions(listen=("127.0.0.1:0",), data=str(tmp_path), brokers=brokers)

    with prepared(options, {}) as launch:
        server = server_of(launch, Hearer(ready=lambda _: None))
        await server.startup()
        end_points = server.end_points
        await server.shutdown()

    assert len(end_points) == brokers
    assert all(end_point.port for end_point in end_points)
