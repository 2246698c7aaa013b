"""Access rules, quotas, SCRAM users and delegation tokens by the clients of Python, Go and Node, and what
they return: `python -m compat_tests.clients.rights_clients` compares what each of them says at kbroker
with what it says at Apache Kafka 3.9.2 with AclAuthorizer and at 4.3.1 with StandardAuthorizer;
`--record` writes down what they say there.

Each line begins with the number of its step; the lines of a step stand in no order.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka import admin as librdkafka
from kafka import admin as python
from kafka.errors import KafkaError

from compat_tests.answers.authorized import LOGINS_AND_RIGHTS, Authorized, asked_of_each, kbroker
from compat_tests.clients import go_clients, node_clients
from compat_tests.clients.every_client import run
from compat_tests.running.prerequisites import require_program

RECORDED = Path(__file__).with_name("rights_clients.json")
SETTLES_S = 0.5  # the time in which a broker of KRaft hears of what its controller did
WITH_TOKENS = {**LOGINS_AND_RIGHTS, "delegation.token.secret.key": "the secret of all brokers"}
_PATIENCE_S = 20

Lines = list[str]


class Saying:
    """Lines of one client, by its steps."""

    def __init__(self, pause_s: float) -> None:
        self.lines: Lines = []
        self._pause_s = pause_s
        self._step = 0

    def step(self, use: Callable[[], Iterator[object]]) -> None:
        """Play a step, and keep what it yields, or the error that it raises."""
        time.sleep(self._pause_s)
        self._step += 1
        try:
            found = [str(each) for each in use()]
        except (KafkaError, KafkaException) as error:
            found = [f"{type(error).__name__} {error}"]
        self.lines += [f"{self._step:02} {line}" for line in found or ["nothing"]]


def _python_rule(kind: str, name: str, **named: Any) -> Any:
    pattern = python.ACLResourcePatternType[named.get("pattern", "LITERAL")]
    return python.ACL(
        named.get("principal", "User:ann"),
        named.get("host", "*"),
        python.ACLOperation[named.get("operation", "READ")],
        python.ACLPermissionType[named.get("permission", "ALLOW")],
        python.ResourcePattern(python.ResourceType[kind], name, pattern),
    )


def _python_filter(kind: str = "ANY", name: str | None = None, pattern: str = "ANY") -> Any:
    return python.ACLFilter(
        None,
        None,
        python.ACLOperation.ANY,
        python.ACLPermissionType.ANY,
        python.ResourcePatternFilter(
            python.ResourceType[kind], name, python.ACLResourcePatternType[pattern]
        ),
    )


def by_kafka_python(broker: Authorized, pause_s: float) -> Lines:
    """Rules and users by kafka-python."""
    admin = python.KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    login = {"sasl_plain_username": "ann", "sasl_plain_password": "ann-secret"}
    user = python.KafkaAdminClient(
        bootstrap_servers=f"127.0.0.1:{broker.port}",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        **login,
    )
    saying = Saying(pause_s)

    def create(by: Any, *rules: Any) -> None:
        saying.step(lambda: iter(by.create_acls(list(rules)).items()))

    def describe(by: Any, wanted: Any) -> None:
        saying.step(lambda: iter(by.describe_acls(wanted)[0]))

    def delete(by: Any, *filters: Any) -> None:
        def use() -> Iterator[object]:
            for asked, rules, error in by.delete_acls(list(filters)):
                yield f"{asked} {error}"
                yield from rules

        saying.step(use)

    every, named = _python_filter(), _python_filter("TOPIC", "orders-eu", "MATCH")
    create(
        admin,
        _python_rule("TOPIC", "orders"),
        _python_rule("TOPIC", "orders", pattern="PREFIXED", permission="DENY", host="10.0.0.7"),
        _python_rule("GROUP", "billing", principal="User:*", operation="ALL"),
        _python_rule("CLUSTER", "kafka-cluster", principal="User:bob", operation="DESCRIBE"),
        _python_rule("USER", "User:bob", operation="CREATE_TOKENS"),
    )
    create(admin, _python_rule("TOPIC", "more"), _python_rule("TOPIC", ""))
    create(user, _python_rule("TOPIC", "t"))
    for by, wanted in ((admin, every), (user, every), (admin, named)):
        describe(by, wanted)
    delete(user, every)
    delete(admin, named, _python_filter("TOPIC", "none", "LITERAL"))
    delete(admin, every)
    describe(admin, every)
    _python_users(saying, admin, user)
    for client in (admin, user):
        client.close()
    return saying.lines


def _python_users(saying: Saying, admin: Any, user: Any) -> None:
    added, removed = python.UserScramCredentialUpsertion, python.UserScramCredentialDeletion

    def alter(by: Any, *changes: Any) -> None:
        saying.step(lambda: iter(by.alter_user_scram_credentials(list(changes)).items()))

    def describe(by: Any, *names: str) -> None:
        asked = list(names) or None
        saying.step(lambda: iter(by.describe_user_scram_credentials(asked).items()))

    alter(
        admin,
        added("zoe", "SCRAM-SHA-256", "pencil", iterations=4_096),
        added("yan", "SCRAM-SHA-512", "pencil", iterations=8_192),
        added("few", "SCRAM-SHA-512", "pencil", iterations=100),
        removed("nobody", "SCRAM-SHA-256"),
    )
    alter(user, added("xia", "SCRAM-SHA-256", "pencil", iterations=4_096))
    describe(admin, "zoe", "yan", "nobody")
    describe(user, "zoe")  # Apache Kafka never answers if that asks for all
    alter(admin, removed("zoe", "SCRAM-SHA-256"), removed("yan", "SCRAM-SHA-512"))
    describe(admin, "zoe", "yan")


def _c_rule(kind: str, name: str, **named: Any) -> Any:
    return librdkafka.AclBinding(
        librdkafka.ResourceType[kind],
        name,
        librdkafka.ResourcePatternType[named.get("pattern", "LITERAL")],
        named.get("principal", "User:ann"),
        named.get("host", "*"),
        librdkafka.AclOperation[named.get("operation", "READ")],
        librdkafka.AclPermissionType[named.get("permission", "ALLOW")],
    )


def _c_filter(kind: str = "ANY", name: str | None = None, pattern: str = "ANY") -> Any:
    return librdkafka.AclBindingFilter(
        librdkafka.ResourceType[kind],
        name,
        librdkafka.ResourcePatternType[pattern],
        None,
        None,
        librdkafka.AclOperation.ANY,
        librdkafka.AclPermissionType.ANY,
    )


def _shown(future: Any) -> str:
    """The result of a future, or its error."""
    try:
        return str(future.result(_PATIENCE_S))
    except KafkaException as error:
        return f"{type(error).__name__} {error}"


def by_confluent(broker: Authorized, pause_s: float) -> Lines:
    """Rules and users by librdkafka."""
    admin = librdkafka.AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    login = {"sasl.mechanism": "PLAIN", "sasl.username": "ann", "sasl.password": "ann-secret"}
    user = librdkafka.AdminClient(
        {
            "bootstrap.servers": f"127.0.0.1:{broker.port}",
            "security.protocol": "SASL_PLAINTEXT",
            "log_level": 0,
            **login,
        }
    )
    saying = Saying(pause_s)

    def create(by: Any, *rules: Any) -> None:
        saying.step(lambda: (f"{r} {_shown(f)}" for r, f in by.create_acls(list(rules)).items()))

    def describe(by: Any, wanted: Any) -> None:
        saying.step(lambda: iter(by.describe_acls(wanted).result(_PATIENCE_S)))

    def delete(by: Any, *filters: Any) -> None:
        def use() -> Iterator[object]:
            for asked, future in by.delete_acls(list(filters)).items():
                try:
                    found = future.result(_PATIENCE_S)
                except KafkaException as error:
                    found = [error]
                yield f"{asked} {len(found)}"
                yield from found

        saying.step(use)

    every, named = _c_filter(), _c_filter("TOPIC", "orders-eu", "MATCH")
    create(
        admin,
        _c_rule("TOPIC", "orders"),
        _c_rule("TOPIC", "orders", pattern="PREFIXED", permission="DENY", host="10.0.0.7"),
        _c_rule("GROUP", "billing", principal="User:*", operation="ALL"),
        _c_rule("BROKER", "kafka-cluster", principal="User:bob", operation="DESCRIBE"),
    )
    create(admin, _c_rule("TOPIC", "more"), _c_rule("TOPIC", ""))
    create(user, _c_rule("TOPIC", "t"))
    for by, wanted in ((admin, every), (user, every), (admin, named)):
        describe(by, wanted)
    delete(user, every)
    delete(admin, named, _c_filter("TOPIC", "none", "LITERAL"))
    delete(admin, every)
    describe(admin, every)
    _c_users(saying, admin, user)
    return saying.lines


def _c_users(saying: Saying, admin: Any, user: Any) -> None:
    def added(name: str, iterations: int) -> Any:
        mechanism = librdkafka.ScramMechanism.SCRAM_SHA_512
        info = librdkafka.ScramCredentialInfo(mechanism, iterations)
        return librdkafka.UserScramCredentialUpsertion(name, info, b"pencil", b"salt")

    def removed(name: str) -> Any:
        mechanism = librdkafka.ScramMechanism.SCRAM_SHA_512
        return librdkafka.UserScramCredentialDeletion(name, mechanism)

    def alter(by: Any, *changes: Any) -> None:
        saying.step(
            lambda: (
                f"{name} {_shown(future)}"
                for name, future in by.alter_user_scram_credentials(list(changes)).items()
            )
        )

    def describe(by: Any, *names: str) -> None:
        def use() -> Iterator[object]:
            for name, future in by.describe_user_scram_credentials(list(names)).items():
                try:
                    infos = future.result(_PATIENCE_S).scram_credential_infos
                except KafkaException as error:
                    yield f"{name} {error}"
                else:
                    yield f"{name} {[(i.mechanism.name, i.iterations) for i in infos]}"

        saying.step(use)

    alter(admin, added("zoe", 4_096), added("few", 100), removed("nobody"))
    alter(user, added("xia", 4_096))
    describe(admin, "zoe", "nobody")  # librdkafka 2.16 crashes if it may not, here and there
    alter(admin, removed("zoe"))
    describe(admin, "zoe")


def _by_program(command: list[str], broker: Authorized, pause_s: float) -> Lines:
    addresses = [broker.bootstrap, f"127.0.0.1:{broker.port}"]
    words = [*command, *addresses, str(int(pause_s * 1_000))]
    return run(words, timeout_s=110).decode().splitlines()


def by_kafkajs(broker: Authorized, pause_s: float) -> Lines:
    """Rules by KafkaJS, which knows nothing of the others."""
    program = str(node_clients.folder() / "rights.js")
    return _by_program([require_program("node", "install Node.js"), program], broker, pause_s)


def by_franz_go(broker: Authorized, pause_s: float) -> Lines:
    """Rules, quotas, users and tokens by kadm of franz-go."""
    return _by_program([str(go_clients.kept_program("rights")), "franz-go"], broker, pause_s)


def by_kafka_go(broker: Authorized, pause_s: float) -> Lines:
    """Rules, quotas and users by kafka-go."""
    return _by_program([str(go_clients.kept_program("rights")), "kafka-go"], broker, pause_s)


CLIENTS: Mapping[str, Callable[[Authorized, float], Lines]] = MappingProxyType(
    {
        "kafka-python": by_kafka_python,
        "confluent-kafka": by_confluent,
        "kafkajs": by_kafkajs,
        "franz-go": by_franz_go,
        "kafka-go": by_kafka_go,
    }
)

_A_JAVA_OBJECT = re.compile(
    r"Request Request\(.*?(( is not authorized| needs \w+ permission)\.|(?=\"\}))"
)

DIFFERENT: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "kafka-python": ("05",),
        "confluent-kafka": ("03", "07"),
        "franz-go": ("04", "06", "08"),
        "kafka-go": ("02", "04", "06"),
    }
)
"""By client, steps that are refused for a lack of rights, of which Apache Kafka says a Java object, and
kbroker nothing more than the code.
"""


def said(broker: Authorized, client: str) -> Lines:
    """Have a client say all that it has to at a broker."""
    lines = CLIENTS[client](broker, SETTLES_S if broker.settles else 0.0)
    return sorted(_A_JAVA_OBJECT.sub("(a Java object)", line) for line in lines)


def recorded() -> dict[str, dict[str, Lines]]:
    """Read what each client said at Apache Kafka, by version."""
    found: dict[str, dict[str, Lines]] = json.loads(RECORDED.read_text())
    return found


def unexplained(client: str, ours: Lines) -> Lines:
    """Return the steps in which a client says at kbroker what it says at no Apache Kafka, and those in
    which it was to say something else and does not.
    """
    theirs = [by_step(each[client]) for each in recorded().values()]
    found = []
    for step, lines in by_step(ours).items():
        wanted = [each.get(step, []) for each in theirs]
        if (lines not in wanted) != (step in DIFFERENT.get(client, ())):
            found += [f"{client}: {line}" for line in lines]
            found += [f"    {line}" for each in wanted for line in each]
    return found


def by_step(lines: Lines) -> dict[str, Lines]:
    """Lines by the number of their step."""
    found: dict[str, Lines] = {}
    for line in lines:
        found.setdefault(line[:2], []).append(line)
    return found


def main() -> None:
    """Compare, or record what is said at Apache Kafka."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true")
    if parser.parse_args().record:
        theirs = asked_of_each(
            lambda broker: {client: said(broker, client) for client in CLIENTS}, WITH_TOKENS
        )
        RECORDED.write_text(json.dumps(theirs, indent=0, ensure_ascii=False) + "\n")
    with kbroker(WITH_TOKENS) as broker:
        found = [line for client in CLIENTS for line in unexplained(client, said(broker, client))]
    print(*found, f"{len(CLIENTS)} clients, {len(found)} lines without a reason", sep="\n")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
