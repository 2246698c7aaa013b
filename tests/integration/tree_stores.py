"""The stores that fulfil `Tree`, as the contract suite drives them: sessions that can be cut off and
ended from outside.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from compat_tests.running.tcp_proxy import TcpProxy
from compat_tests.running.zookeeper_servers import ZooKeeperServers
from kbroker.zk.embedded.embedded_tree import EmbeddedTree, TreeSession
from kbroker.zk.ensemble.kazoo_tree import KazooTree, open_kazoo_tree
from kbroker.zk.tree import SessionState, Tree
from tests.fakes.running.waiting import until
from tests.fakes.trees.memory_tree_files import FixedClock

SESSION_TIMEOUT_MS = 4000


class TreeStore(Protocol):
    """One tree, and sessions over it."""

    async def open(self) -> Tree:
        """Another session."""
        ...

    async def cut_off(self, session: Tree) -> None:
        """Break its connection and keep it broken; returns when the session knows."""
        ...

    async def reconnect(self, session: Tree) -> None:
        """Let it connect again; returns when it has."""
        ...

    async def expire(self, session: Tree) -> None:
        """End the session behind its back; returns when it has another one."""
        ...

    async def close(self) -> None:
        """End all sessions."""
        ...


class EmbeddedStore:
    """An embedded tree in memory."""

    def __init__(self) -> None:
        self._tree = EmbeddedTree(FixedClock())

    async def open(self) -> Tree:
        return self._tree.session()

    async def cut_off(self, session: Tree) -> None:
        assert isinstance(session, TreeSession)
        session.suspend()

    async def reconnect(self, session: Tree) -> None:
        assert isinstance(session, TreeSession)
        session.resume()

    async def expire(self, session: Tree) -> None:
        assert isinstance(session, TreeSession)
        session.expire()
        session.renew()

    async def close(self) -> None:
        self._tree.close()


class EnsembleStore:
    """A chroot on real servers; each session behind a proxy of its own."""

    def __init__(self, servers: ZooKeeperServers, chroot: str) -> None:
        self.servers = servers
        self._chroot = chroot
        self._proxies: dict[KazooTree, list[TcpProxy]] = {}

    async def open(
        self, session_timeout_ms: int = SESSION_TIMEOUT_MS, max_in_flight: int = 10
    ) -> KazooTree:
        proxies = [TcpProxy("127.0.0.1", server.port) for server in self.servers.servers]
        connect = ",".join(proxy.address for proxy in proxies) + self._chroot
        session = await open_kazoo_tree(connect, session_timeout_ms, 30_000, max_in_flight)
        self._proxies[session] = proxies
        return session

    def proxies(self, session: Tree) -> list[TcpProxy]:
        assert isinstance(session, KazooTree)
        return self._proxies[session]

    def proxy(self, session: Tree) -> TcpProxy:
        """Of the server that the session is connected to."""
        return next(
            (proxy for proxy in self.proxies(session) if proxy.connections),
            self.proxies(session)[0],  # it is connecting just now
        )

    async def cut_off(self, session: Tree) -> None:
        for proxy in self.proxies(session):
            proxy.refuse()
        await until(lambda: session.state is not SessionState.CONNECTED)

    async def reconnect(self, session: Tree) -> None:
        for proxy in self.proxies(session):
            proxy.accept()
        await until(lambda: session.state is SessionState.CONNECTED)

    async def expire(self, session: Tree) -> None:
        before = session.session_id
        await asyncio.to_thread(self.servers.expire_session, before)
        await until(
            lambda: session.session_id != before and session.state is SessionState.CONNECTED
        )

    async def close(self) -> None:
        for session, proxies in self._proxies.items():
            for proxy in proxies:
                proxy.heal()
            await session.close()
            for proxy in proxies:
                proxy.close()


@asynccontextmanager
async def opened(store: TreeStore) -> AsyncIterator[Tree]:
    """A first session; all are closed at the end."""
    try:
        yield await store.open()
    finally:
        await store.close()
