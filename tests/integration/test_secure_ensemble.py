"""A ZooKeeper that asks who comes: by TLS with client certificates, by DIGEST-MD5, by its own scheme
digest; the rights of nodes, and the sentences of those who stay outside.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager

import pytest
from kazoo.client import KazooClient

from compat_tests.running.prerequisites import NotAvailableError
from compat_tests.running.secure_zookeeper import (
    PASSWORD,
    SUPER,
    USER,
    SecureZooKeeper,
    secure_zookeeper,
)
from compat_tests.running.shared_zookeeper import fresh_chroot
from compat_tests.running.tcp_proxy import TcpProxy
from kbroker.config.kafka_config import KafkaConfig
from kbroker.config.zk_access import zk_access
from kbroker.counters import CounterRegistry
from kbroker.server.metadata_tree.ensemble_tree import EnsembleTree
from kbroker.zk.ensemble.kazoo_tree import KazooTree, open_kazoo_tree
from kbroker.zk.tree import CreateOp, SessionState, TreeError, TreeUnavailableError, WatchEvent
from tests.fakes.certificates import Authority, Issued
from tests.fakes.counted import counted
from tests.fakes.running.waiting import until

pytestmark = pytest.mark.java

JAAS = 'org.x.DigestLoginModule required username="{}" password="{}";'
LOGIN = {"kbroker.zookeeper.jaas.config": JAAS.format(USER, PASSWORD.replace('"', '\\"'))}
NODES = ("/a", "/config", "/config/users", "/config/users/ann", "/consumers")


class Secured:
    """The ZooKeeper, and the certificate of a broker in files that may be replaced."""

    def __init__(self, zookeeper: SecureZooKeeper, authority: Authority, broker: Issued) -> None:
        self.zookeeper = zookeeper
        self.own = broker.pem
        self.authority = authority
        self.tls = {
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.ssl.truststore.location": str(authority.certificate),
        }
        self.with_certificate = {**self.tls, "zookeeper.ssl.keystore.location": str(self.own)}

    @asynccontextmanager
    async def opened(self, connect: str, *settings: dict[str, str]) -> AsyncIterator[KazooTree]:
        config = {"zookeeper.connect": connect}
        for texts in settings:
            config |= texts
        access = zk_access(KafkaConfig(config))
        tree = await open_kazoo_tree(connect, 6_000, 30_000, access=access)
        try:
            yield tree
        finally:
            await tree.close()

    def rights(self, *paths: str) -> list[str]:
        """The rights of nodes as a superuser sees them."""
        client = KazooClient(self.zookeeper.connect(), timeout=30, auth_data=[("digest", SUPER)])
        client.start(30)
        try:
            found = [client.get_acls(path)[0] for path in paths]
        finally:
            client.stop()
            client.close()
        return [
            " ".join(f"{acl.id.scheme}:{acl.id.id}:{acl.perms}" for acl in acls) for acls in found
        ]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    authority = Authority(folder / "authority")
    server, broker = authority.issue("zookeeper", kind="rsa"), authority.issue("broker")
    try:
        with secure_zookeeper(folder / "zookeeper", server.pem, authority.certificate) as running:
            yield Secured(running, authority, broker)
    except NotAvailableError as error:
        pytest.skip(str(error))


SET_ACL = {"zookeeper.set.acl": "true"}


async def reconnect(tree: KazooTree, proxy: TcpProxy) -> None:
    proxy.refuse()
    await until(lambda: tree.state is SessionState.SUSPENDED)
    proxy.accept()
    await until(lambda: tree.state is SessionState.CONNECTED)


async def make(tree: KazooTree, paths: Sequence[str]) -> None:
    for path in paths:
        await tree.create(path, b"x")


async def test_tls_carries_everything_and_certificates_may_change_meanwhile(
    secured: Secured, caplog: pytest.LogCaptureFixture
) -> None:
    proxy = TcpProxy("127.0.0.1", secured.zookeeper.tls_port)
    seen: list[WatchEvent] = []
    connect = f"{proxy.address}/tls"
    async with secured.opened(connect, secured.with_certificate, SET_ACL) as tree:
        await make(tree, NODES)
        me, world = "x509:CN=broker:31", "world:anyone:1"
        assert secured.rights(*(f"/tls{path}" for path in ("", *NODES))) == [
            f"{me} {world}", f"{me} {world}", f"{me} {world}", me, me, "world:anyone:31",
        ]  # fmt: skip

        # Answers that share records of TLS, and one that fills many.
        large, count = b"z" * 1_000_000, 1_000
        await tree.multi_all([(CreateOp(f"/a/{n}", str(n).encode()),) for n in range(count)])
        found = await tree.get_all([f"/a/{n}" for n in range(count)])
        assert [node and node[0] for node in found] == [str(n).encode() for n in range(count)]
        await tree.create("/large", large)
        assert (await tree.get("/large", seen.append))[0] == large
        await tree.set("/large", b"")
        await until(lambda: len(seen) == 1)

        session = tree.session_id
        other = secured.authority.issue("other").pem.read_text()
        for own in ("no certificate", other):
            secured.own.write_text(own)
            await reconnect(tree, proxy)
            await tree.create("/consumers/of", sequential=True)
        names = await tree.children("/consumers")
        first, second = secured.rights(*(f"/tls/consumers/{name}" for name in names))

    proxy.close()
    assert tree.session_id == session
    assert first == f"{me} {world}"  # the file is no use: what was read before counts
    assert second == f"x509:CN=other:31 {world}"
    told = [record for record in caplog.messages if "stays in force" in record]
    assert told == [
        f"zookeeper.ssl.keystore.location={secured.own} cannot be used: it has no -----BEGIN "
        "CERTIFICATE-----; what was read before stays in force"
    ]


async def test_logins_hold_over_reconnections_and_keep_others_out(secured: Secured) -> None:
    proxy = TcpProxy("127.0.0.1", secured.zookeeper.servers.server.port)
    connect, counters = secured.zookeeper.connect("/sasl"), CounterRegistry()
    async with secured.opened(f"{proxy.address}/sasl", LOGIN, SET_ACL) as tree:
        tree.register(counters)
        await make(tree, NODES)
        await reconnect(tree, proxy)
        await tree.create("/config/users/bob")
        async with secured.opened(connect) as stranger:
            assert (await stranger.get("/config"))[0] == b"x"
            refused = await stranger.get_all(["/a"])
            assert refused[0] is not None
            for asked in (stranger.get("/config/users/ann"), stranger.set("/a", b"")):
                with pytest.raises(TreeError, match="NoAuthError"):
                    await asked
    proxy.close()
    assert counted(counters, "ZooKeeperSaslAuthenticationsPerSec")[()] == 2
    assert secured.rights("/sasl/config/users/bob", "/sasl/a") == [
        "sasl:kafka:31",
        "sasl:kafka:31 world:anyone:1",
    ]
    async with secured.opened(
        f"{connect}-2", {"kbroker.zookeeper.digest": "ann:b:c"}, SET_ACL
    ) as tree:
        await make(tree, ["/config"])
    assert secured.rights("/sasl-2/config")[0].startswith("digest:ann:")


async def test_who_is_refused_is_told_why(secured: Secured) -> None:
    plain, tls = secured.zookeeper.connect("/why"), secured.zookeeper.connect("/why", tls=True)
    async with secured.opened(plain, LOGIN, SET_ACL) as tree:
        await make(tree, NODES)
    wrong = {"kbroker.zookeeper.jaas.config": JAAS.format(USER, "secret")}
    refuses = "refuses the login, or wants one"
    for connect, settings, sentence in (
        (plain, wrong, refuses),
        (fresh_chroot(), LOGIN, refuses),  # it knows no SASL
        (f"{plain}/config/users/x", {}, "keeps /why/config/users/x for those with another login"),
    ):
        with pytest.raises(TreeUnavailableError) as caught:
            async with secured.opened(connect, settings):
                raise AssertionError(f"{connect} takes {settings}")
        assert sentence in str(caught.value)
        assert "secret" not in str(caught.value)

    stranger = Authority(secured.own.parent / "stranger").certificate
    untrusting = {**secured.tls, "zookeeper.ssl.truststore.location": str(stranger)}
    for connect, settings, complaint in (
        (tls, {}, "socket connection broken"),
        (plain, secured.tls, "it ends the handshake (is this its port for TLS?)"),
        (tls, secured.tls, "it refuses us"),
        (tls, untrusting, "its certificate is signed by nobody trusted here ("),
    ):
        access = zk_access(KafkaConfig({"zookeeper.connect": connect, **settings}))
        outside = KazooTree(connect.partition("/")[0], "", 30_000, 10, access)
        opening = asyncio.create_task(outside.open(makes_chroot=False))
        await until(lambda: complaint in outside.last_complaint)  # noqa: B023  awaited here
        opening.cancel()
        await outside.close()

    async with secured.opened(plain) as tree:
        with pytest.raises(TreeError) as refused:
            await tree.create("/b")
    explained = EnsembleTree(KafkaConfig({"zookeeper.connect": plain}).zk).refusal(refused.value)
    assert str(explained) == (
        f"ZooKeeper at {plain} keeps /b for those with another login: use the one that made its "
        "nodes"
    )
