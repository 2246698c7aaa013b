"""What the doctor makes of what it saw: each rule finds its fault, and nothing that is sound."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kbroker.cli.doctor.diagnosis import diagnose
from kbroker.cli.doctor.finding import Severity
from kbroker.cli.doctor.observations import (
    Directory,
    Door,
    GroupTrial,
    Heard,
    Observations,
    SeenBroker,
    SeenCluster,
    SeenTopic,
    Speech,
    Trial,
    WrittenRecord,
)
from kbroker.client.partition_health import PartitionHealth
from kbroker.model import TopicPartition
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.schema import Versions

KAFKAS_DEFAULTS = {
    "auto.create.topics.enable": "true",
    "default.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "3000",
    "group.max.session.timeout.ms": "1800000",
    "group.min.session.timeout.ms": "6000",
    "message.max.bytes": "1048588",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "3",
    "socket.request.max.bytes": "104857600",
    "transaction.state.log.replication.factor": "3",
    "unclean.leader.election.enable": "false",
}
NOWHERE = frozenset[TopicPartition]()


def door(host: str = "kafka", number: int = 1, **changes: object) -> Door:
    made = Door(host=host, port=9092, addresses=(f"10.0.0.{number}",), cluster_id="c")
    return replace(made, **changes)  # type: ignore[arg-type]


def broker(node_id: int, **changes: object) -> SeenBroker:
    made = SeenBroker(
        node_id=node_id,
        door=door(f"kafka-{node_id}", node_id),
        settings=KAFKAS_DEFAULTS,
        directories=(
            Directory(path="/d", is_offline=False, total_bytes=10**12, usable_bytes=10**11),
        ),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


CLUSTER = SeenCluster(
    cluster_id="c",
    controller_id=1,
    broker_ids=(1, 2, 3),
    topics=(SeenTopic(name="t", replication_factor=3, partitions=6, min_insync_replicas=2),),
)
SOUND = Observations(
    protocol="PLAINTEXT",
    doors=(door(),),
    cluster=CLUSTER,
    brokers=(broker(1), broker(2), broker(3)),
    latest_ahead_ms={"__consumer_offsets": -5},
    trial=Trial(
        topic="kbroker-doctor-1", records=(WrittenRecord(node_id=1, ahead_ms=3, give_ms=2),)
    ),
    group=GroupTrial(coordinator=2),
)


def codes(seen: Observations) -> dict[str, str]:
    return {each.code: each.severity.value for each in diagnose(seen)}


def with_settings(**settings: str) -> Observations:
    values = KAFKAS_DEFAULTS | {name.replace("_", "."): text for name, text in settings.items()}
    changed = tuple(replace(each, settings=values) for each in SOUND.brokers)
    return replace(SOUND, brokers=changed)


def with_cluster(**changes: object) -> Observations:
    return replace(SOUND, cluster=replace(CLUSTER, **changes))  # type: ignore[arg-type]


def with_door(protocol: str = "PLAINTEXT", **changes: object) -> Observations:
    """Nothing but a door, which is all that is seen if it is closed."""
    return Observations(protocol=protocol, doors=(door(**changes),))  # type: ignore[arg-type]


def with_broker(**changes: object) -> Observations:
    first, *others = SOUND.brokers
    return replace(SOUND, brokers=(replace(first, **changes), *others))  # type: ignore[arg-type]


def health(**lacks: frozenset[TopicPartition]) -> PartitionHealth:
    kinds = ("leaderless", "under_replicated", "under_min_isr", "reassigning")
    return PartitionHealth(**{kind: lacks.get(kind, NOWHERE) for kind in kinds})


def test_a_sound_cluster_has_no_finding() -> None:
    assert diagnose(SOUND) == []


@pytest.mark.parametrize(
    ("speech", "protocol", "code"),
    [
        (Speech.KAFKA, "SSL", "tls-on-plain-port"),
        (Speech.KAFKA, "SASL_SSL", "tls-on-plain-port"),
        (Speech.KAFKA_OVER_TLS, "PLAINTEXT", "plain-on-tls-port"),
        (Speech.KAFKA_OVER_TLS, "SASL_PLAINTEXT", "plain-on-tls-port"),
        (Speech.TLS, "PLAINTEXT", "plain-on-tls-port"),
        (Speech.TLS, "SSL", "tls-refused"),
        (Speech.HTTP, "SSL", "web-server"),
        (Speech.ZOOKEEPER, "PLAINTEXT", "zookeeper"),
        (Speech.OTHER, "PLAINTEXT", "not-a-broker"),
        (Speech.CLOSED, "PLAINTEXT", "connection-closed"),
        (Speech.SILENCE, "PLAINTEXT", "silence"),
    ],
)
def test_what_speaks_at_a_closed_door_is_named(speech: Speech, protocol: str, code: str) -> None:
    seen = with_door(
        protocol, refusal="no", heard=Heard(speech=speech, first_bytes=b"HTTP/1.1 400")
    )
    (finding,) = diagnose(seen)

    assert (finding.code, finding.severity) == (code, Severity.ERROR)
    assert finding.subject == "kafka:9092"
    assert finding.seen
    assert finding.means
    assert finding.mends.endswith(".")


@pytest.mark.parametrize(
    ("mechanisms", "protocol", "code"),
    [
        (("PLAIN",), "PLAINTEXT", "login-wanted"),
        ((), "SASL_PLAINTEXT", "no-login-there"),
        (("PLAIN",), "SASL_PLAINTEXT", "not-let-in"),  # a wrong password
        (None, "PLAINTEXT", "not-let-in"),
        ((), "PLAINTEXT", "no-answer"),
    ],
)
def test_a_login_that_is_not_that_of_the_port_is_named(
    mechanisms: tuple[str, ...] | None, protocol: str, code: str
) -> None:
    heard = Heard(speech=Speech.KAFKA, mechanisms=mechanisms)
    seen = with_door(protocol, refusal="no", heard=heard, serves={ApiKey.METADATA: Versions(0, 13)})

    assert codes(seen) == {code: "error"}


@pytest.mark.parametrize(
    ("mechanisms", "protocol", "mends"),
    [
        (("PLAIN",), "PLAINTEXT", "security.protocol=SASL_SSL with a login (sasl.mechanism=PLAIN)"),
        ((), "SASL_PLAINTEXT", "security.protocol=SSL,"),
        (None, "SASL_PLAINTEXT", "security.protocol=SASL_SSL,"),
    ],
)
def test_all_that_a_port_with_tls_asks_for_is_named_at_once(
    mechanisms: tuple[str, ...] | None, protocol: str, mends: str
) -> None:
    heard = Heard(speech=Speech.KAFKA_OVER_TLS, mechanisms=mechanisms)

    (finding,) = diagnose(with_door(protocol, refusal="no", heard=heard))
    assert (finding.code, mends in finding.mends) == ("plain-on-tls-port", True)


def test_a_certificate_that_is_not_trusted_is_no_trouble_of_the_login() -> None:
    heard = Heard(speech=Speech.KAFKA_OVER_TLS, mechanisms=("PLAIN",))
    refusal = "the broker's certificate is not made for the name kafka"

    (finding,) = diagnose(with_door("SASL_SSL", refusal=refusal, heard=heard))

    assert (finding.code, finding.seen) == ("tls-refused", refusal)


def test_a_controller_of_kraft_is_named() -> None:
    heard = Heard(speech=Speech.KAFKA, mechanisms=())
    seen = with_door(refusal="no", heard=heard, serves={ApiKey.API_VERSIONS: Versions(0, 4)})

    assert codes(seen) == {"controller-port": "error"}


def test_names_and_ways_that_lead_nowhere_are_named() -> None:
    refused, late = {"10.0.0.1": "Connection refused"}, {"10.0.0.1": "no answer within 3 s"}

    assert codes(with_door(addresses=(), unknown="Name not known")) == {"name-unknown": "error"}
    assert codes(with_door(unreached=refused)) == {"port-closed": "error"}
    assert codes(with_door(unreached=late)) == {"unreachable": "error"}
    both = replace(door(), addresses=("10.0.0.1", "10.0.0.2"), unreached=refused)
    assert codes(replace(SOUND, doors=(both,))) == {"address-half-reached": "warning"}
    local = Door(
        host="localhost", port=1, addresses=("::1", "127.0.0.1"), unreached={"::1": "refused"}
    )
    assert codes(replace(SOUND, doors=(local,))) == {}


def test_an_address_beside_one_that_works_is_a_warning() -> None:
    closed = door("other", unreached={"10.0.0.1": "Connection refused"})

    assert codes(replace(SOUND, doors=(door(), closed))) == {"port-closed": "warning"}


def test_addresses_of_several_clusters_are_named() -> None:
    (finding,) = diagnose(replace(SOUND, doors=(door(), door("other", cluster_id="d"))))

    assert (finding.code, finding.severity) == ("mixed-clusters", Severity.ERROR)
    assert finding.seen.endswith("kafka:9092 to c, other:9092 to d")


def test_an_advertised_address_that_is_closed_says_who_gives_it() -> None:
    unknown = door("broker", addresses=(), unknown="Name not known")
    (finding,) = diagnose(with_broker(door=unknown))

    assert (finding.code, finding.subject) == ("advertised-name-unknown", "broker 1")
    assert "clients are given broker:9092 as the address of broker 1" in finding.seen
    assert "advertised.listeners" in finding.mends


def test_an_advertised_address_of_the_loopback_is_an_error_unless_it_works_here() -> None:
    here = Door(host="localhost", port=9092, addresses=("127.0.0.1",), cluster_id="c")
    closed = replace(here, unreached={"127.0.0.1": "Connection refused"})

    assert codes(with_broker(door=here)) == {"advertised-loopback": "warning"}
    assert codes(with_broker(door=closed)) == {
        "advertised-port-closed": "error",
        "advertised-loopback": "error",
    }
    assert codes(replace(with_broker(door=here), doors=(here,))) == {}


def test_advertised_addresses_of_others_are_named() -> None:
    everywhere = Door(host="0.0.0.0", port=9092, addresses=("0.0.0.0",))

    assert codes(with_broker(door=everywhere)) == {"advertised-everywhere": "error"}
    assert codes(with_broker(door=SOUND.brokers[1].door)) == {"advertised-twice": "error"}
    elsewhere = replace(SOUND.brokers[0].door, cluster_id="d")
    assert codes(with_broker(door=elsewhere, disowned="another")) == {
        "advertised-other-cluster": "error"
    }
    assert codes(with_broker(disowned="another")) == {"advertised-other-broker": "error"}
    unsaid = replace(SOUND.brokers[0].door, cluster_id=None)
    assert codes(with_broker(door=unsaid, settings=None)) == {}


def test_a_controller_that_is_missing_or_gone_is_named() -> None:
    assert codes(with_cluster(controller_id=-1)) == {"no-controller": "error"}
    (finding,) = diagnose(with_cluster(controller_id=9))
    assert "name 9 as controller, which is not one of them" in finding.seen
    (finding,) = diagnose(with_broker(silence="REQUEST_TIMED_OUT"))
    assert finding.code == "no-controller"
    assert finding.seen.endswith("does not say whether a topic could be made: REQUEST_TIMED_OUT")


def test_partitions_are_named_once_by_the_worst_that_they_lack() -> None:
    a, b, c = (TopicPartition("t", number) for number in range(3))
    lacking = health(
        leaderless=frozenset({a}),
        under_min_isr=frozenset({a, b}),
        under_replicated=frozenset({a, b, c}),
    )
    findings = diagnose(with_cluster(health=lacking, away={7: (a, b, c)}))

    assert [(each.code, each.seen) for each in findings] == [
        ("no-leader", "1 partition without a leader: t-0; broker 7 not there"),
        (
            "under-min-isr",
            "1 partition with fewer replicas in sync than min.insync.replicas: t-1; broker 7 not there",
        ),
        (
            "under-replicated",
            "1 partition with replicas that are not in sync: t-2; broker 7 not there",
        ),
    ]


def test_directories_are_named_by_their_broker() -> None:
    lost = Directory(path="/lost", is_offline=True)
    full = Directory(path="/full", is_offline=False, total_bytes=10**12, usable_bytes=10**6)

    assert codes(with_broker(directories=(lost, full))) == {
        "offline-directory": "error",
        "disk-almost-full": "warning",
    }
    (finding,) = diagnose(with_cluster(offline={2: (TopicPartition("t", 0),)}))
    assert finding.seen == "the broker is there and has lost 1 partition offline: t-0"


def test_topics_that_allow_no_broker_to_be_away_are_named() -> None:
    def topic(replicas: int, minimum: int) -> tuple[SeenTopic, ...]:
        return (
            SeenTopic(
                name="u", replication_factor=replicas, partitions=1, min_insync_replicas=minimum
            ),
        )

    assert codes(with_cluster(topics=topic(3, 3))) == {"min-isr-equals-replicas": "warning"}
    assert codes(with_cluster(topics=topic(2, 3))) == {"min-isr-above-replicas": "warning"}
    assert codes(with_cluster(topics=topic(1, 1))) == {}


def test_internal_topics_that_cannot_be_made_are_named_until_they_are_there() -> None:
    few = {"broker_ids": (1, 2)}
    there = tuple(
        SeenTopic(name=name, replication_factor=2, partitions=50)
        for name in ("__consumer_offsets", "__transaction_state")
    )

    (offsets, transactions) = diagnose(with_cluster(**few))
    assert (offsets.code, offsets.severity) == ("internal-topic-impossible", Severity.ERROR)
    assert (transactions.subject, transactions.severity) == (
        "__transaction_state",
        Severity.WARNING,
    )
    assert codes(with_cluster(**few, topics=there)) == {}
    alone = replace(
        with_cluster(**few),
        brokers=(broker(1, settings=KAFKAS_DEFAULTS | {"kbroker.flush": "acks-all"}),),
    )
    assert codes(alone) == {}


@pytest.mark.parametrize(
    ("name", "value", "code", "severity"),
    [
        ("default.replication.factor", "4", "replicas-above-brokers", "error"),
        ("min.insync.replicas", "2", "min-isr-above-default-replicas", "warning"),
        ("message.max.bytes", "999999", "small-messages", "warning"),
        ("socket.request.max.bytes", "1000000", "small-requests", "error"),
        ("group.max.session.timeout.ms", "30000", "session-bounds", "warning"),
        ("group.min.session.timeout.ms", "15000", "session-bounds", "warning"),
        ("group.initial.rebalance.delay.ms", "3001", "slow-first-rebalance", "note"),
        ("unclean.leader.election.enable", "true", "unclean-elections", "warning"),
        ("auto.create.topics.enable", "false", "no-topics-on-use", "note"),
    ],
)
def test_settings_that_bite_are_named(name: str, value: str, code: str, severity: str) -> None:
    assert codes(with_settings(**{name: value})) == {code: severity}


def test_a_number_of_replicas_that_the_controller_takes_all_the_same_is_fine() -> None:
    seen = with_settings(default_replication_factor="4")
    first, *others = seen.brokers

    assert codes(replace(seen, brokers=(replace(first, makes_topics=True), *others))) == {}


def test_settings_that_differ_are_named_with_their_brokers() -> None:
    (finding,) = diagnose(with_broker(settings=KAFKAS_DEFAULTS | {"message.max.bytes": "2000000"}))

    assert finding.code == "different-settings"
    assert "2000000 at broker 1; 1048588 at brokers 2, 3" in finding.seen


def test_settings_that_are_no_numbers_or_not_said_are_left_alone() -> None:
    assert codes(with_settings(**{"message.max.bytes": "many"})) == {}
    assert codes(with_broker(settings={})) == {}


def test_what_was_tried_in_vain_is_named() -> None:
    def tried(**changes: object) -> Observations:
        trial = replace(SOUND.trial, **changes)  # type: ignore[type-var, arg-type]
        return replace(SOUND, trial=trial)

    assert codes(tried(refusal="TOPIC_AUTHORIZATION_FAILED")) == {"topic-refused": "error"}
    failed = WrittenRecord(node_id=2, refusal="NOT_ENOUGH_REPLICAS")
    assert codes(tried(records=(failed,))) == {"record-refused": "error"}
    denied = "TOPIC_AUTHORIZATION_FAILED"
    assert codes(tried(refusal=denied, left=denied)) == {"topic-refused": "error"}
    assert codes(tried(left="no controller")) == {"topic-left": "warning"}
    refused = GroupTrial(coordinator=None, refusal="COORDINATOR_NOT_AVAILABLE")
    assert codes(replace(SOUND, group=refused)) == {"group-refused": "error"}
    without_right = GroupTrial(coordinator=1, refusal="GROUP_AUTHORIZATION_FAILED")
    assert codes(replace(SOUND, group=without_right)) == {"group-refused": "note"}


def test_clocks_are_compared_within_what_is_known() -> None:
    def stamped(ahead_ms: int, give_ms: int) -> Observations:
        record = WrittenRecord(node_id=1, ahead_ms=ahead_ms, give_ms=give_ms)
        return replace(SOUND, trial=Trial(topic="x", records=(record,)))

    assert codes(stamped(5_000, 10)) == {"clock": "warning"}
    assert codes(stamped(-5_000, 10)) == {"clock": "warning"}
    assert codes(stamped(5_000, 4_000)) == {}
    future = replace(SOUND, trial=None, latest_ahead_ms={"__consumer_offsets": 60_000})
    assert codes(future) == {"clock": "warning"}
    assert codes(replace(future, latest_ahead_ms={"__consumer_offsets": -60_000})) == {}


def test_topics_of_a_doctor_that_was_killed_are_named_with_the_command_that_deletes_them() -> None:
    left = SeenTopic(name="kbroker-doctor-ab", replication_factor=1, partitions=1)
    (finding,) = diagnose(with_cluster(topics=(left,)))

    assert (finding.code, finding.severity) == ("left-behind", Severity.NOTE)
    assert finding.mends == "`kbroker topic delete kbroker-doctor-ab`"
