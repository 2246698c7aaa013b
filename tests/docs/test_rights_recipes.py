"""The recipes of rules on the page about security are enough for the programs that they are for, and
for no more: each is given to a user of its own, who does what such a program does.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
)

from kbroker.cli.command_line import run as kbroker
from kbroker.testing import Broker
from tests.docs.pages import blocks, text_of

SECRET = "secret"
_RECORDS = 8
DENIED = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
(BLOCK,) = blocks("sh", text_of("security").partition("\n### Recipes\n")[2])
RECIPES = [text.splitlines() for text in BLOCK.strip().split("\n\n")]
SETTINGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:admin;User:kbroker-testing",
}
ANY_RULE = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY,
    AclPermissionType.ANY,
)  # fmt: skip


class Program:
    """A user of the broker, and what programs do."""

    def __init__(self, broker: Broker, user: str) -> None:
        self._options = {**broker.client(user, "confluent-kafka"), "log_level": 0}
        self.admin = AdminClient(dict(self._options))

    def produce(self, topic: str, *, idempotent: bool = True) -> None:
        """Send records. Raises KafkaException."""
        errors: list[KafkaError] = []

        def done(error: KafkaError | None, _: object) -> None:
            if error is not None:
                errors.append(error)

        producer = Producer({**self._options, "enable.idempotence": idempotent})
        for _ in range(_RECORDS):
            producer.produce(topic, b"v", on_delivery=done)
        producer.flush(20)
        if errors:
            raise KafkaException(errors[0])

    def member(self, topic: str, group: str) -> Consumer:
        """A consumer in a group that has read a record. Raises KafkaException."""
        consumer = self._consumer(group)
        consumer.subscribe([topic])
        self._read(consumer)
        return consumer

    def read(self, topic: str) -> None:
        """Read a record without a group. Raises KafkaException."""
        consumer = self._consumer("unused")
        consumer.assign([TopicPartition(topic, 0, 0)])
        # librdkafka looks for a coordinator all the same, and says what comes of it.
        self._read(consumer, besides=KafkaError.GROUP_AUTHORIZATION_FAILED)
        consumer.close()

    def copy(self, source: str, group: str, target: str, transactional_id: str) -> None:
        """Copy a record in a transaction. Raises KafkaException."""
        consumer = self.member(source, group)
        producer = Producer({**self._options, "transactional.id": transactional_id})
        producer.init_transactions(20)
        producer.begin_transaction()
        producer.produce(target, b"v")
        position = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), 20)
        producer.commit_transaction(20)
        consumer.close()

    def make(self, topic: str) -> None:
        """Create a topic. Raises KafkaException."""
        self.admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(20)

    def described(self, topic: str) -> None:
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        self.admin.describe_configs([resource])[resource].result(20)

    def _consumer(self, group: str) -> Consumer:
        own = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        return Consumer({**self._options, **own})

    def _read(self, consumer: Consumer, *, besides: int | None = None) -> None:
        while True:
            record = consumer.poll(20)
            assert record is not None
            error = record.error()
            if error is None:
                return
            if error.code() != besides:
                raise KafkaException(error)


def refused(deed: Callable[..., object], *arguments: str) -> None:
    with pytest.raises(KafkaException) as caught:
        deed(*arguments)
    assert caught.value.args[0].code() in DENIED


def may_not_write(ann: Program, topic: str) -> None:
    with pytest.raises(KafkaException) as caught:
        ann.produce(topic, idempotent=False)
    assert caught.value.args[0].code() in DENIED


def produce(ann: Program) -> None:
    ann.produce("orders")
    refused(ann.read, "orders")


def consume(ann: Program) -> None:
    consumer = ann.member("orders", "billing")
    consumer.commit(asynchronous=False)
    consumer.close()
    refused(ann.member, "orders", "shipping")
    may_not_write(ann, "orders")


def copy(ann: Program) -> None:
    ann.copy("orders", "billing", "invoices", "billing")
    refused(ann.copy, "orders", "billing", "invoices", "shipping")


def stream(ann: Program) -> None:
    changelog = "shop-totals-changelog"
    ann.make(changelog)
    ann.described(changelog)
    ann.copy("orders", "shop", changelog, "shop-5a1b-1")
    ann.copy("orders", "shop", "totals", "shop-5a1b-1")
    ann.read(changelog)
    offsets = {TopicPartition(changelog, 0): OffsetSpec.latest()}
    (latest,) = ann.admin.list_offsets(offsets).values()
    latest.result(20)
    (gone,) = ann.admin.delete_records([TopicPartition(changelog, 0, 1)]).values()  # repartitioned
    gone.result(20)
    refused(ann.make, "other")


def connect(ann: Program) -> None:
    for topic in ("connect-configs", "connect-offsets", "connect-status"):
        ann.make(topic)
        ann.produce(topic)
        ann.read(topic)
    ann.member("connect-status", "connect").close()
    ann.produce("readings")
    ann.member("orders", "connect-sink").close()
    may_not_write(ann, "orders")


def spark(ann: Program) -> None:
    ann.read("orders")
    ann.produce("scored")
    refused(ann.member, "orders", "spark")


def look(ann: Program) -> None:
    ann.read("orders")
    ann.described("orders")
    assert {"orders", "scored"} <= ann.admin.list_topics(timeout=20).topics.keys()
    assert ann.admin.list_consumer_groups().result(20).errors == []
    ann.admin.describe_acls(ANY_RULE).result(20)
    may_not_write(ann, "orders")
    refused(ann.make, "other")
    refused(ann.member, "orders", "billing")


def administer(ann: Program) -> None:
    ann.make("sales-eu")
    change = ConfigEntry("retention.ms", "5000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, "sales-eu", incremental_configs=[change])
    ann.admin.incremental_alter_configs([resource])[resource].result(20)
    ann.produce("sales-eu")
    ann.copy("sales-eu", "sales-audit", "sales-eu", "sales-copier")
    ann.admin.delete_topics(["sales-eu"])["sales-eu"].result(20)
    refused(ann.make, "orders-eu")
    may_not_write(ann, "orders")


PROGRAMS = [produce, consume, copy, stream, connect, spark, look, administer]


def settings_of(broker: Broker, user: str, directory: Path) -> Path:
    """The file by which commands log in as this user."""
    path = directory / f"{user}.properties"
    java = broker.client(user, "java")
    path.write_text("".join(f"{name}={value}\n" for name, value in java.items()))
    return path


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    users = {
        "admin": SECRET,
        "carl": SECRET,
        **{f"user{number}": SECRET for number in range(len(RECIPES))},
    }
    with Broker(users=users, settings=SETTINGS) as broker:
        config = settings_of(broker, "admin", tmp_path_factory.mktemp("recipes"))
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("KBROKER_BOOTSTRAP", broker.bootstrap)
            patch.setenv("KBROKER_COMMAND_CONFIG", str(config))
            topics = ["orders", "invoices", "totals", "scored"]
            assert kbroker(["topic", "create", *topics]) == 0
            Program(broker, "admin").produce("orders")
            for number, recipe in enumerate(RECIPES):
                for line in recipe:
                    if not line.startswith("#"):
                        words = line.replace(" ann ", f" user{number} ", 1)
                        assert kbroker(shlex.split(words)[1:]) == 0, line
            yield broker


@pytest.mark.parametrize("number", range(len(RECIPES)), ids=lambda n: PROGRAMS[n].__name__)
def test_a_recipe_is_enough_for_its_program(broker: Broker, number: int) -> None:
    PROGRAMS[number](Program(broker, f"user{number}"))


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (
            "consume orders",
            "read on topic orders: `kbroker acl allow User:carl read --topic orders`",
        ),
        (
            "group describe g",
            "describe on group g: `kbroker acl allow User:carl describe --group g`",
        ),
        ("user list", "describe on the cluster: `kbroker acl allow User:carl describe --cluster`"),
        (
            "topic create new",
            "create on topic new: `kbroker acl allow User:carl create --topic new`",
        ),
    ],
)
def test_a_command_that_lacks_a_right_says_which_and_how_it_is_given(
    broker: Broker,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: str,
    words: str,
) -> None:
    login = ["--bootstrap", broker.bootstrap]
    login += ["--command-config", str(settings_of(broker, "carl", tmp_path))]

    assert kbroker([*command.split(), *login]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == f"User:carl needs {words} gives it"


def test_every_recipe_has_its_program() -> None:
    assert len(PROGRAMS) == len(RECIPES)
