"""Rules, users and quotas of a broker, in pages of the console and by its JSON API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import closing

import pytest

from kbroker.cli.acl.rule_options import rules_in
from kbroker.client.access_rules import create_rules
from kbroker.client.client_quotas import altered_quotas
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.scram_users import altered_users, with_password
from kbroker.console.consoled_cluster import ConsoledCluster
from kbroker.console.web.app import ConsoleApplication
from tests.fakes.running.console_client import ConsoleClient
from tests.fakes.running.forked_broker import Broker

RULES = (
    "allow User:ann read --topic orders- --prefixed",
    "deny User:<b> write --topic orders --host 10.0.0.1",
)


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A broker with something of each."""
    settings = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with Broker(settings=settings) as made, closing(ClusterLinks(made.bootstrap)) as links:
        assert (
            create_rules(links, [rule for line in RULES for rule in rules_in(line)]) == [None] * 2
        )
        for user in ("ann", "bob"):
            request = with_password(user, "secret", ["SCRAM-SHA-256"], 4_096)
            assert altered_users(links, request) == {user: None}
        quotas: list[tuple[dict[str, str | None], dict[str, float | None]]] = [
            ({"user": "ann", "client-id": None}, {"producer_byte_rate": 1_048_576.0}),
            ({"ip": "10.0.0.1"}, {"connection_creation_rate": 5.0}),
        ]
        assert altered_quotas(links, quotas) == [None] * 2
        yield made.bootstrap


@pytest.fixture
async def client(bootstrap: str) -> AsyncIterator[ConsoleClient]:
    with closing(ConsoleApplication(ConsoledCluster(bootstrap))) as made:
        yield ConsoleClient(made)


async def test_rules_are_listed_and_found_by_any_of_their_words(client: ConsoleClient) -> None:
    listed = await client.get("/access")
    assert "2 rules" in listed.text
    assert "User:ann allow read topic orders- prefixed everywhere" in listed.text
    assert "User:<b> deny write topic orders literal 10.0.0.1" in listed.text
    assert "<b>" not in listed.html
    found = await client.get("/access?q=DENY")
    assert "1 rule" in found.text
    assert "User:ann" not in found.text
    assert "No rule has this text." in (await client.get("/access?q=carl")).text
    (row,) = (await client.call("GET", "/api/v1/rules?q=ann")).value["page"]["rows"]
    assert row == {
        "principal": "User:ann",
        "host": "*",
        "permission": "allow",
        "operation": "read",
        "resource": "topic",
        "name": "orders-",
        "pattern": "prefixed",
    }


async def test_users_are_listed_with_their_mechanisms(client: ConsoleClient) -> None:
    listed = await client.get("/access/users")
    assert "2 users" in listed.text
    assert "ann SCRAM-SHA-256 4,096" in listed.text
    (row,) = (await client.call("GET", "/api/v1/users?q=bob")).value["page"]["rows"]
    assert row == {"name": "bob", "mechanisms": {"SCRAM-SHA-256": 4_096}}


async def test_quotas_are_listed_with_their_owners(client: ConsoleClient) -> None:
    listed = await client.get("/access/quotas")
    assert "2 owners" in listed.text
    assert "ann <default> producer_byte_rate 1.0 MiB" in listed.text
    assert "10.0.0.1 connection_creation_rate 5" in listed.text
    rows = (await client.call("GET", "/api/v1/quotas")).value["page"]["rows"]
    assert rows[0] == {
        "entity": {"user": "ann", "client-id": None},
        "values": {"producer_byte_rate": 1_048_576.0},
    }


async def test_without_an_authorizer_the_page_says_that_everybody_may_do_everything() -> None:
    with Broker() as made, closing(ConsoleApplication(ConsoledCluster(made.bootstrap))) as console:
        page = await ConsoleClient(console).get("/access")
    assert page.status == 200
    assert "everybody may do everything" in page.text
    assert "There is no rule." in page.text
