"""`kbroker doctor` names faults that were planted, and finds nothing that is sound."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from compat_tests.commands.command_line import CANNOT_CONNECT, FINE, ITEM_FAILED, USAGE, run
from compat_tests.running.tls_door import TlsDoor, file_of_client, made_certificate
from kbroker.cli.doctor.probes.trials import tried_topic
from kbroker.client.cluster_links import ClusterLinks
from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kbroker.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)
from kbroker.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from kbroker.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kbroker.protocol.schema import Message
from kbroker.sasl.login_gate import DOCTORS_MECHANISM
from kbroker.server.start.local_cluster import LocalCluster
from kbroker.server.start.local_configs import configs_of_brokers
from kbroker.server.system_clock import SystemClock
from tests.fakes.brokers.scripted_broker import (
    Listener,
    ScriptedBroker,
    bound_port,
    ending,
    full_port,
    saying,
    silent,
    web,
    zookeeper,
)
from tests.fakes.running.forked_broker import Broker

TLS_HANDSHAKE = b"\x16"
QUICK = ("-X", "request.timeout.ms=300")  # for listeners that say nothing
UNHURRIED = ("-X", "request.timeout.ms=5000")  # a broker's answer can take longer on a busy machine
Advertised = Callable[[str], str]


def examined(*options: str) -> tuple[int, list[dict[str, Any]]]:
    """The exit code and the findings of `kbroker doctor`."""
    done = run("doctor", *options, "--output", "json")
    assert "Traceback" not in done.err, done.err
    return done.code, json.loads(done.out)


def found(*options: str) -> dict[str, str]:
    """The severities of the findings by code."""
    return {each["code"]: each["severity"] for each in examined(*options)[1]}


@pytest.fixture(scope="module")
def sound() -> Iterator[str]:
    """The address of a broker without faults."""
    with Broker() as made:
        yield made.bootstrap


@pytest.fixture
def advertising() -> Iterator[Advertised]:
    """Starts a broker that gives clients an address, and returns the one it listens at."""
    with ExitStack() as brokers:

        def start(address: str, **settings: str) -> str:
            broker = Broker(settings={"kbroker.advertise": address, **settings})
            return brokers.enter_context(broker).bootstrap

        yield start


@pytest.mark.parametrize(
    ("talk", "code"),
    [
        (web, "web-server"),
        (silent, "silence"),
        (ending, "connection-closed"),
        (zookeeper, "zookeeper"),
        (saying(b"SSH-2.0-OpenSSH_9.2\r\n"), "not-a-broker"),
    ],
)
def test_what_listens_instead_of_a_broker_is_named(talk: Any, code: str) -> None:
    with Listener(talk) as listener:
        ended, findings = examined("--bootstrap", listener.address, *QUICK)

    assert (ended, [each["code"] for each in findings]) == (CANNOT_CONNECT, [code])
    assert all(findings[0][part] for part in ("seen", "means", "mends"))


def test_the_words_of_another_program_are_shown() -> None:
    with Listener(saying(b"SSH-2.0-OpenSSH_9.2\r\n")) as listener:
        done = run("doctor", "--bootstrap", listener.address, *QUICK)

    assert "it says 'SSH-2.0-OpenSSH_9.2'" in " ".join(done.out.split())


def test_a_port_without_listener_is_named() -> None:
    with bound_port() as port:
        assert found("--bootstrap", f"127.0.0.1:{port}") == {"port-closed": "error"}


def test_an_unknown_name_is_named_and_is_a_warning_beside_an_address_that_works(
    sound: str,
) -> None:
    assert found("--bootstrap", "no-such-host.invalid:9092") == {"name-unknown": "error"}
    code, findings = examined("--bootstrap", f"no-such-host.invalid:9092,{sound}")
    assert [(each["code"], each["severity"]) for each in findings] == [("name-unknown", "warning")]
    assert code == FINE


def test_an_address_that_takes_no_connection_is_named() -> None:
    with full_port() as port:
        quick = ("-X", "socket.connection.setup.timeout.ms=200")
        assert found("--bootstrap", f"127.0.0.1:{port}", *quick) == {"unreachable": "error"}


def test_tls_where_none_is_spoken_and_logins_where_none_is_taken_are_named(
    sound: str,
) -> None:
    plain = ("--bootstrap", sound)
    assert found(*plain, "-X", "security.protocol=SSL") == {"tls-on-plain-port": "error"}
    login = ("sasl.mechanism=PLAIN", "sasl.username=ann", "sasl.password=x")
    options = [option for each in login for option in ("-X", each)]
    named = found(*plain, *options, "-X", "security.protocol=SASL_PLAINTEXT")
    assert named == {"no-login-there": "error"}


def test_no_tls_where_it_is_spoken_is_named(sound: str, tmp_path: Path) -> None:
    certificate = made_certificate(tmp_path, "door", "IP:127.0.0.1")
    with TlsDoor(certificate) as door:
        door.port_behind = int(sound.rpartition(":")[2])
        assert found("--bootstrap", door.address) == {"plain-on-tls-port": "error"}
        strange = ("-X", "security.protocol=SSL")
        assert found("--bootstrap", door.address, *strange) == {"tls-refused": "error"}


def test_a_web_server_behind_tls_is_named_with_and_without_it(tmp_path: Path) -> None:
    certificate = made_certificate(tmp_path, "door", "IP:127.0.0.1")
    client = file_of_client(tmp_path / "client.properties", certificate)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))

    begun = []

    def talk(connection: socket.socket) -> None:
        begun.append(connection.recv(1, socket.MSG_PEEK))
        with context.wrap_socket(connection, server_side=True) as secured:
            web(secured)

    with Listener(talk) as page:
        trusting = ("--command-config", str(client))
        assert found("--bootstrap", page.address, *QUICK) == {"web-server": "error"}
        begun.clear()
        assert found("--bootstrap", page.address, *QUICK, *trusting) == {"web-server": "error"}
    assert set(begun) - {b""} == {TLS_HANDSHAKE}  # what the client itself speaks


def test_a_wanted_login_is_named_with_its_mechanisms() -> None:
    def refuse(request: SaslHandshakeRequest) -> Message:
        assert request.mechanism == DOCTORS_MECHANISM
        return SaslHandshakeResponse(
            error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=["SCRAM-SHA-512"]
        )

    script = {MetadataRequest: lambda _: None, SaslHandshakeRequest: refuse}
    with ScriptedBroker(script) as broker:
        _, findings = examined("--bootstrap", broker.address)

    assert [each["code"] for each in findings] == ["login-wanted"]
    assert "SCRAM-SHA-512" in findings[0]["seen"]


def test_the_port_of_a_controller_is_named() -> None:
    with ScriptedBroker({SaslHandshakeRequest: lambda _: None}) as controller:
        assert found("--bootstrap", controller.address) == {"controller-port": "error"}


def test_an_advertised_address_that_is_closed_unknown_or_something_else_is_named(
    advertising: Advertised,
) -> None:
    with bound_port() as port, Listener(web) as page:
        for address, code in (
            (f"127.0.0.1:{port}", "advertised-port-closed"),
            ("no-such-host.invalid:9092", "advertised-name-unknown"),
            (page.address, "advertised-web-server"),
        ):
            ended, findings = examined("--bootstrap", advertising(address), *UNHURRIED)

            assert (ended, [each["code"] for each in findings]) == (ITEM_FAILED, [code])
            assert address in findings[0]["seen"]


def test_an_advertised_broker_of_another_cluster_is_named(
    advertising: Advertised, sound: str
) -> None:
    assert found("--bootstrap", advertising(sound)) == {"advertised-other-cluster": "error"}


def test_an_advertised_address_of_the_loopback_is_named_to_a_client_that_came_by_another() -> None:
    own = own_address()
    with bound_port() as port:
        settings = {"listeners": f"PLAINTEXT://{own}:0", "kbroker.advertise": f"localhost:{port}"}
        with Broker(settings=settings) as broker:
            named = found("--bootstrap", broker.bootstrap)

    assert named == {"advertised-port-closed": "error", "advertised-loopback": "error"}


def own_address() -> str:
    """An address of this machine that is not one of the loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing
        return str(probe.getsockname()[0])


def scripted(
    broker: ScriptedBroker, brokers: dict[int, tuple[str, int]], **fields: Any
) -> Callable[[Message], Message]:
    """An answer to Metadata that names these brokers."""

    def answer(_request: Message) -> Message:
        rows = [
            MetadataResponse.MetadataResponseBroker(node_id=node_id, host=host, port=port)
            for node_id, (host, port) in brokers.items()
        ]
        return MetadataResponse(brokers=rows, cluster_id="c", **{"controller_id": 1, **fields})

    return answer


def test_a_data_directory_that_was_removed_is_named(tmp_path: Path) -> None:
    directories = [tmp_path / name for name in ("kept", "lost")]
    with Broker(settings={"log.dirs": ",".join(map(str, directories))}) as broker:
        run("topic", "create", "t", "--partitions", "4", bootstrap=broker.bootstrap)
        shutil.rmtree(directories[1])
        while run("health", bootstrap=broker.bootstrap).code == FINE:
            pass  # the broker looks for its directories from time to time
        _, findings = examined("--bootstrap", broker.bootstrap)

    assert [each["code"] for each in findings] == ["no-leader", "offline-directory"]
    assert str(directories[1]) in findings[1]["seen"]
    assert "2 partitions offline" in findings[1]["seen"]


def test_addresses_of_two_clusters_are_named(sound: str) -> None:
    with Broker() as other:
        named = found("--bootstrap", f"{sound},{other.bootstrap}")

    assert named == {"mixed-clusters": "error"}


def test_a_missing_controller_is_named() -> None:
    broker = ScriptedBroker({})
    here = {1: ("127.0.0.1", broker.port)}
    broker.script[MetadataRequest] = scripted(broker, here, controller_id=-1)
    with broker:
        assert found("--bootstrap", broker.address) == {"no-controller": "error"}
        broker.script |= {
            MetadataRequest: scripted(broker, here),
            CreateTopicsRequest: lambda _: CreateTopicsResponse(
                topics=[
                    CreateTopicsResponse.CreatableTopicResult(
                        error_code=ErrorCode.REQUEST_TIMED_OUT
                    )
                ]
            ),
        }
        assert found("--bootstrap", broker.address) == {"no-controller": "error"}


def test_a_broker_that_never_answers_some_questions_is_asked_the_others() -> None:
    may_end = threading.Event()

    def never(_request: Message) -> Message | None:
        may_end.wait()
        return None

    broker = ScriptedBroker({DescribeConfigsRequest: never})
    here = {1: ("127.0.0.1", broker.port)}
    lost = DescribeLogDirsResponse.DescribeLogDirsResult(
        log_dir="/a", error_code=ErrorCode.KAFKA_STORAGE_ERROR
    )
    broker.script |= {
        MetadataRequest: scripted(broker, here),
        DescribeLogDirsRequest: lambda _: DescribeLogDirsResponse(results=[lost]),
    }
    with broker:
        assert found("--bootstrap", broker.address, *QUICK) == {"offline-directory": "error"}
        may_end.set()


def test_two_brokers_at_one_address_and_an_address_for_listening_are_named() -> None:
    broker = ScriptedBroker({})
    here = ("127.0.0.1", broker.port)
    broker.script[MetadataRequest] = scripted(broker, {1: here, 2: here})
    with broker:
        assert found("--bootstrap", broker.address) == {"advertised-twice": "error"}
        broker.script[MetadataRequest] = scripted(broker, {1: ("0.0.0.0", broker.port)})
        assert found("--bootstrap", broker.address) == {"advertised-everywhere": "error"}


@pytest.mark.parametrize(
    ("host", "port"),
    [("", 9092), ("a..b", 9092), ("x" * 300, 9092), ("a\0b\x1b[2J", 9092), ("127.0.0.1", 0)]
    + [("127.0.0.1", port) for port in (-1, 65_536, 2**31 - 1)],
)
def test_advertised_addresses_that_are_none_are_named(host: str, port: int) -> None:
    broker = ScriptedBroker({})
    broker.script[MetadataRequest] = scripted(broker, {1: (host, port)})
    with broker:
        assert "advertised-name-unknown" in found("--bootstrap", broker.address)


@pytest.mark.parametrize(
    ("settings", "codes"),
    [
        ({"offsets.topic.replication.factor": 3}, {}),  # it takes what there is
        ({"default.replication.factor": 3}, {"replicas-above-brokers": "error"}),
        ({"message.max.bytes": 1000}, {"small-messages": "warning"}),
        ({"group.max.session.timeout.ms": 20_000}, {"session-bounds": "warning"}),
        ({"group.initial.rebalance.delay.ms": 3000}, {"slow-first-rebalance": "note"}),
        ({"auto.create.topics.enable": "false"}, {"no-topics-on-use": "note"}),
        ({"min.insync.replicas": 2}, {"min-isr-above-default-replicas": "warning"}),
    ],
)
def test_settings_that_bite_are_named(settings: dict[str, object], codes: dict[str, str]) -> None:
    with Broker(settings=settings) as broker:
        assert found("--bootstrap", broker.bootstrap) == codes


def test_partitions_that_lack_leaders_or_replicas_are_named(tmp_path: Path) -> None:
    with Broker(brokers=3, data=tmp_path) as three:
        for name, replicas, minimum in (("one", 1, 1), ("some", 3, 1), ("all", 3, 3)):
            options = ("--partitions", "3", "--replication-factor", str(replicas))
            setting = ("--config", f"min.insync.replicas={minimum}")
            made = run("topic", "create", name, *options, *setting, bootstrap=three.bootstrap)
            assert made.code == FINE, made
    with Broker(brokers=2, data=tmp_path) as two:
        _, findings = examined("--bootstrap", two.bootstrap)

    by_code = {each["code"]: each["seen"] for each in findings}
    assert list(by_code) == [
        "no-leader", "under-min-isr", "under-replicated", "min-isr-equals-replicas",
    ]  # fmt: skip
    assert "1 partition without a leader: one-" in by_code["no-leader"]
    assert by_code["no-leader"].endswith("; broker 2 not there")
    assert "all-0, all-1, all-2" in by_code["under-min-isr"]
    assert "some-0, some-1, some-2" in by_code["under-replicated"]


def test_one_address_in_front_of_two_brokers_is_named() -> None:
    def describe(request: Message) -> Message:
        assert isinstance(request, DescribeConfigsRequest)
        is_own = request.resources[0].resource_name == "1"
        return DescribeConfigsResponse(
            results=[
                DescribeConfigsResponse.DescribeConfigsResult(
                    error_code=ErrorCode.NONE if is_own else ErrorCode.INVALID_REQUEST,
                    error_message="Unexpected broker id, expected 1, but received 2",
                )
            ]
        )

    broker = ScriptedBroker({DescribeConfigsRequest: describe})
    here = ("127.0.0.1", broker.port)
    broker.script[MetadataRequest] = scripted(broker, {1: here, 2: here})
    with broker:
        code, findings = examined("--bootstrap", broker.address)

    named = [(each["code"], each["subject"]) for each in findings]
    assert code == ITEM_FAILED
    assert named == [
        ("advertised-twice", broker.address),
        ("advertised-other-broker", "broker 2"),
    ]


class LateClock(SystemClock):
    """A clock that is an hour behind."""

    def now_ms(self) -> int:
        return super().now_ms() - 3_600_000


async def test_a_clock_that_is_wrong_is_named(tmp_path: Path) -> None:
    values = {"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0"}
    configs = configs_of_brokers(KafkaConfig.for_profile("dev", values), 1)
    local = LocalCluster(configs, str(tmp_path), clock=LateClock())
    await local.startup()
    try:
        (server,) = local.servers
        assert server is not None
        address = f"127.0.0.1:{server.end_points[0].port}"
        _, findings = await asyncio.to_thread(examined, "--bootstrap", address, "--write")
    finally:
        await local.shutdown()

    assert [each["code"] for each in findings] == ["clock"]
    assert re.search(r"is (3599\.\d|3600\.0) s behind that of this machine", findings[0]["seen"])


def test_a_group_that_refuses_us_is_named() -> None:
    broker = ScriptedBroker({})
    here = {1: ("127.0.0.1", broker.port)}
    topic = MetadataResponse.MetadataResponseTopic(
        name="__consumer_offsets",
        partitions=[
            MetadataResponse.MetadataResponsePartition(
                leader_id=1, replica_nodes=[1], isr_nodes=[1]
            )
        ],
    )
    broker.script |= {
        MetadataRequest: scripted(broker, here, topics=[topic]),
        FindCoordinatorRequest: lambda _: FindCoordinatorResponse(
            coordinators=[FindCoordinatorResponse.Coordinator(node_id=1, port=broker.port)]
        ),
    }
    with broker:
        for code in (ErrorCode.GROUP_AUTHORIZATION_FAILED, 999):  # one of a newer Kafka
            answer = JoinGroupResponse(error_code=code)
            broker.script[JoinGroupRequest] = lambda _, answer=answer: answer
            _, findings = examined("--bootstrap", broker.address)

            assert [each["code"] for each in findings] == ["group-refused"]
            assert ErrorCode(code).name in findings[0]["seen"]


def test_a_directory_that_is_lost_or_almost_full_is_named() -> None:
    broker = ScriptedBroker({})
    result = DescribeLogDirsResponse.DescribeLogDirsResult
    broker.script |= {
        MetadataRequest: scripted(broker, {1: ("127.0.0.1", broker.port)}),
        DescribeLogDirsRequest: lambda _: DescribeLogDirsResponse(
            results=[
                result(log_dir="/a", error_code=ErrorCode.KAFKA_STORAGE_ERROR),
                result(log_dir="/b", total_bytes=10**12, usable_bytes=10**7),
                result(log_dir="/c", total_bytes=10**12, usable_bytes=10**10),
            ]
        ),
    }
    with broker:
        _, findings = examined("--bootstrap", broker.address)

    assert [each["code"] for each in findings] == ["offline-directory", "disk-almost-full"]
    assert "/a" in findings[0]["seen"]
    assert "/b" in findings[1]["seen"]


class Interrupted(ClusterLinks):
    """Links of a command that gets Ctrl-C as it writes its record."""

    def ask(self, node_id: int, request: Message) -> Any:
        if isinstance(request, ProduceRequest):
            raise KeyboardInterrupt
        return super().ask(node_id, request)


def test_ctrl_c_amid_a_trial_leaves_no_topic(sound: str) -> None:
    said: list[str] = []
    with closing(Interrupted(sound)) as links, pytest.raises(KeyboardInterrupt):
        tried_topic(links, "kbroker-doctor-1", (0,), said.append)

    assert said == []
    assert "kbroker-doctor-1" not in run("topic", "list", bootstrap=sound).out


def test_a_topic_that_cannot_be_deleted_is_named_at_once_and_by_the_next_doctor() -> None:
    with Broker(settings={"delete.topic.enable": "false"}) as broker:
        assert found("--bootstrap", broker.bootstrap, "--write") == {"topic-left": "warning"}
        assert found("--bootstrap", broker.bootstrap) == {"left-behind": "note"}
        said: list[str] = []
        with closing(Interrupted(broker.bootstrap)) as links, pytest.raises(KeyboardInterrupt):
            tried_topic(links, "kbroker-doctor-1", (0,), said.append)

    assert said == [
        "topic kbroker-doctor-1 is left: kbroker-doctor-1: the brokers have "
        "delete.topic.enable=false (TOPIC_DELETION_DISABLED); kbroker topic delete "
        "kbroker-doctor-1 deletes it"
    ]


def test_a_file_of_certificates_that_is_not_there_is_wrong_usage(sound: str) -> None:
    options = ("-X", "security.protocol=SSL", "-X", "ssl.ca.location=missing.pem")
    done = run("doctor", "--bootstrap", sound, *options)

    assert "missing.pem cannot be used: No such file" in done.refused(USAGE)


def test_nothing_is_found_over_tls_and_a_certificate_for_another_name_is_named(
    tmp_path: Path,
) -> None:
    for name, codes in (("IP:127.0.0.1", {}), ("DNS:elsewhere", {"tls-refused": "error"})):
        certificate = made_certificate(tmp_path, "door", name)
        client = file_of_client(tmp_path / "client.properties", certificate)
        with (
            TlsDoor(certificate) as door,
            Broker(settings={"kbroker.advertise": door.address}) as broker,
        ):
            door.port_behind = int(broker.bootstrap.rpartition(":")[2])
            options = ("--bootstrap", door.address, "--command-config", str(client))
            assert found(*options, "--write") == codes


def test_nothing_is_found_where_nothing_is_wrong_and_nothing_is_left(sound: str) -> None:
    before = run("topic", "list", "--output", "json", bootstrap=sound).out
    done = run("doctor", "--bootstrap", sound)
    assert (done.code, done.out) == (FINE, "")
    assert done.err.splitlines()[0] == (
        "looked at 1 broker (kbroker), 0 topics, 0 partitions: nothing found"
    )
    assert run("topic", "list", "--output", "json", bootstrap=sound).out == before

    done = run("doctor", "--bootstrap", sound, "--write")
    assert (done.code, done.out) == (FINE, "")
    assert "a record written and read back, a group joined: nothing found" in done.err
    assert run("topic", "list", "--output", "json", bootstrap=sound).out == before
    assert run("group", "list", "--output", "json", bootstrap=sound).out == "[]\n"


def test_nothing_is_found_in_other_sound_set_ups(tmp_path: Path) -> None:
    with Broker(brokers=3) as three:
        assert examined("--bootstrap", three.bootstrap, "--write") == (FINE, [])
        by_name = three.bootstrap.replace("127.0.0.1", "localhost").partition(",")[0]
        assert examined("--bootstrap", by_name, "--write") == (FINE, [])
    with Broker(settings={"compression.type": "zstd", "log.cleanup.policy": "compact"}) as one:
        assert examined("--bootstrap", one.bootstrap, "--write") == (FINE, [])
    with Broker(settings={"listeners": "PLAINTEXT://[::1]:0"}) as six:
        assert examined("--bootstrap", six.bootstrap, "--write") == (FINE, [])
