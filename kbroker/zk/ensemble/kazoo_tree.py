"""A tree of znodes on a ZooKeeper ensemble, through kazoo.

Law: paths are relative to the chroot everywhere above this file. `kazoo_calls` sends requests, and
carries them over a broken connection and a lost session; `lost_write` finds out what a lost answer
means; `kazoo_watches` keeps the watches.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from kbroker.config.zk_access import ZkAccess
from kbroker.counters import CounterRegistry
from kbroker.errors import Trouble
from kbroker.security_extra import check_security_extra
from kbroker.tls.tls_context import client_context
from kbroker.zk.ensemble import kazoo_requests as requests
from kbroker.zk.ensemble.kazoo_calls import Call, KazooCalls
from kbroker.zk.ensemble.kazoo_requests import Node, whole_path
from kbroker.zk.ensemble.node_rights import BROKERS_NODES, RightsOf
from kbroker.zk.tree import (
    NodeExistsError,
    NodeTooLargeError,
    NoNodeError,
    Op,
    OpResult,
    SessionListener,
    SessionState,
    Stat,
    Tree,
    TreeError,
    TreeUnavailableError,
    Watch,
)

DEFAULT_MAX_IN_FLIGHT = 10
_CLOSE_TIMEOUT_S = 5.0
_READ_TOGETHER = 64  # nodes; of Kafka's some hundred bytes each


class EnsembleUnreachableError(TreeUnavailableError):
    """No server of the ensemble answered in time. The message is for people."""

    trouble = Trouble.NO_ZOOKEEPER

    def __init__(self, connect: str, waited_ms: int, complaint: str) -> None:
        super().__init__("/")
        why = f" ({complaint})" if complaint else ""
        self.complaint = complaint
        self.args = (
            f"no connection to ZooKeeper at {connect} within {waited_ms} ms{why}: "
            "check zookeeper.connect and whether the ensemble runs, or give it longer with "
            "zookeeper.connection.timeout.ms",
        )


class EnsembleLoginError(TreeUnavailableError):
    """The ensemble refuses a login, or what it may do. The message is for people."""

    trouble = Trouble.NO_ZOOKEEPER

    def __init__(self, connect: str, reason: str) -> None:
        super().__init__("/")
        self.args = (f"ZooKeeper at {connect} {reason}",)


async def open_kazoo_tree(
    connect: str,
    session_timeout_ms: int,
    connection_timeout_ms: int | None = None,
    max_in_flight: int = DEFAULT_MAX_IN_FLIGHT,
    *,
    access: ZkAccess | None = None,
    makes_chroot: bool = True,
) -> KazooTree:
    """Connect to the ensemble at `connect` (host:port,host:port/chroot) and open a session.

    A missing chroot is created, unless nothing should be written: the tree then has no nodes, not
    even its root. `connection_timeout_ms` falls back to the session's. Raises
    EnsembleUnreachableError, EnsembleLoginError, ConfigError for files of TLS that are no use, and
    ValueError for a bad connect string.
    """
    hosts, chroot = parse_connect(connect)
    tree = KazooTree(hosts, chroot, session_timeout_ms, max_in_flight, access)
    waited_ms = session_timeout_ms if connection_timeout_ms is None else connection_timeout_ms
    try:
        async with asyncio.timeout(waited_ms / 1000):
            await tree.open(makes_chroot=makes_chroot)
    except requests.RefusedByEnsembleError as error:
        await tree.close()
        raise login_error(connect, error) from error
    except (TimeoutError, TreeUnavailableError):
        complaint = tree.last_complaint
        if complaint.endswith("broken") and (access is None or access.tls is None):
            complaint += ", as a port for TLS does it: see zookeeper.ssl.client.enable"
        await tree.close()
        raise EnsembleUnreachableError(connect, waited_ms, complaint) from None
    except BaseException:
        await tree.close()
        raise
    return tree


def check_access(access: ZkAccess) -> None:
    """Read the files of TLS, and look for what a login needs. Raises ConfigError."""
    if access.sasl is not None:
        check_security_extra("puresasl", "The login at ZooKeeper by DIGEST-MD5")
    if access.tls is not None:
        client_context(access.tls)


def login_error(connect: str, error: requests.RefusedByEnsembleError) -> EnsembleLoginError:
    """The sentence for an operator about what an ensemble refused."""
    if isinstance(error, requests.LoginRefusedError):
        reason = (
            "refuses the login, or wants one: check user, password and certificate, and which "
            "logins it takes"
        )
    elif isinstance(error, requests.NoRightsError):
        reason = f"keeps {error.path} for those with another login: use the one that made its nodes"
    else:
        reason = f"refuses a request for {error}"
    return EnsembleLoginError(connect, reason)


def parse_connect(connect: str) -> tuple[str, str]:
    """Servers, and chroot ("" or beginning with a slash). Raises ValueError."""
    hosts, slash, rest = connect.partition("/")
    chroot = (slash + rest).rstrip("/")
    for host in hosts.split(","):
        name, _, port = host.strip().rpartition(":")
        if port and not (name and port.isdecimal() and 0 < int(port) < 65536) and ":" in host:
            raise ValueError(f"{connect!r} is not HOST:PORT[,HOST:PORT ...]/chroot")
        if not host.strip():
            raise ValueError(f"{connect!r} is not HOST:PORT[,HOST:PORT ...]/chroot")
    if "//" in chroot or any(part in {".", ".."} for part in chroot.split("/")):
        raise ValueError(f"{connect!r} has a chroot that is not a path: {chroot}")
    return hosts, chroot


class KazooTree(Tree):
    """One broker's sessions on an ensemble, one after the other.

    Owned by the event loop. Made by `open_kazoo_tree`.
    """

    def __init__(
        self,
        hosts: str,
        chroot: str,
        session_timeout_ms: int,
        max_in_flight: int,
        access: ZkAccess | None = None,
    ) -> None:
        self._chroot = chroot
        self._close_timeout_s = min(_CLOSE_TIMEOUT_S, session_timeout_ms / 1000)
        self._max_in_flight = max_in_flight
        self._calls = KazooCalls(hosts, session_timeout_ms, max_in_flight, access or ZkAccess())
        self._reads_together = False

    async def open(self, *, makes_chroot: bool) -> None:
        """Connect, and create the chroot if asked to. Raises TreeUnavailableError,
        RefusedByEnsembleError.
        """
        self._calls.start()
        await self._calls.settled.wait()
        if self._calls.login_refused:
            raise requests.LoginRefusedError("/", self._calls.last_complaint)
        self._reads_together = await self._can_read_together()
        if makes_chroot and self._chroot and await self.exists(self._chroot) is None:
            with suppress(NodeExistsError):
                await self.create(self._chroot, make_parents=True)
        self._calls.chroot = self._chroot

    @property
    def session_id(self) -> int:
        return self._calls.session_id

    @property
    def state(self) -> SessionState:
        return self._calls.state

    @property
    def last_complaint(self) -> str:
        """The reason why there is no connection, as far as known."""
        return self._calls.last_complaint

    async def get(self, path: str, watch: Watch | None = None) -> Node:
        found: Node = await self._calls.ask(self._get_call(path, watch))
        return found

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        whole = whole_path(self._calls.chroot, path)

        def parse(answer: Any) -> Stat | None:
            if watch is not None:
                self._calls.watches.add_data(whole, watch, exists=answer is not None)
            return None if answer is None else requests.stat_of(answer)

        request = requests.exists_request(whole, watched=watch is not None)
        stat: Stat | None = await self._calls.ask(self._calls.read(path, request, parse))
        return stat

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        names: list[str] = await self._calls.ask(self._children_call(path, watch))
        return names

    async def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        if not ops:
            return []
        results: list[OpResult] = await self._calls.ask(self._calls.write(ops))
        return results

    async def multi_all(
        self, transactions: Sequence[Sequence[Op]]
    ) -> list[list[OpResult] | TreeError]:
        return await self._ask_all([partial(self._calls.write, ops) for ops in transactions])

    async def get_all(self, paths: Sequence[str], watch: Watch | None = None) -> list[Node | None]:
        if watch is None and self._reads_together and len(paths) > 1:
            try:
                return await self._read_together(paths)
            except requests.UnknownRequestError:  # another server than the one that was asked
                self._reads_together = False
        found: list[Node | None] = []
        for answer in await self._ask_all([partial(self._get_call, p, watch) for p in paths]):
            if isinstance(answer, TreeError) and not isinstance(answer, NoNodeError):
                raise answer
            found.append(None if isinstance(answer, NoNodeError) else answer)
        return found

    async def set_rights(self, rights_of: RightsOf) -> int:
        """Give the nodes of brokers that are there these rights; returns their number. Raises
        RefusedByEnsembleError, TreeUnavailableError.
        """
        paths = [*BROKERS_NODES, *(["/"] if self._calls.chroot else [])]
        count = 0
        while paths:
            given = await self._ask_all([partial(self._rights_call, p, rights_of) for p in paths])
            there = [path for path, gone in zip(paths, given, strict=True) if not _is_gone(gone)]
            count += len(there)
            parents = [path for path in there if path != "/"]
            lists = await self._ask_all([partial(self._children_call, p, None) for p in parents])
            paths = [
                f"{path}/{name}"
                for path, names in zip(parents, lists, strict=True)
                if not _is_gone(names)
                for name in names
            ]
        return count

    def add_session_listener(self, listener: SessionListener) -> None:
        self._calls.listeners.append(listener)

    def register(self, counters: CounterRegistry) -> None:
        self._calls.metrics.register(counters)

    async def close(self) -> None:
        """End the session for good; waits a bounded time until the ensemble knows."""
        await self._calls.close(self._close_timeout_s)

    async def _can_read_together(self) -> bool:
        """Whether the server knows such requests. A server that does not breaks the connection over
        it, so this is asked before anything else.
        """
        try:
            await self._calls.ask(self._get_many_call(["/"]))
        except requests.UnknownRequestError:
            return False
        return True

    async def _read_together(self, paths: Sequence[str]) -> list[Node | None]:
        """Read many nodes in few requests: one each takes most of a controller's takeover."""
        found: list[Node | None] = []
        parts = [paths[at : at + _READ_TOGETHER] for at in range(0, len(paths), _READ_TOGETHER)]
        for part in await self._ask_all([partial(self._get_many_call, p) for p in parts]):
            if isinstance(part, TreeError):
                raise part
            found += part
        return found

    def _get_many_call(self, paths: Sequence[str]) -> Call:
        whole = [whole_path(self._calls.chroot, path) for path in paths]

        def parse(answer: Any) -> list[Node | None]:
            return [_found(each, path) for each, path in zip(answer, paths, strict=True)]

        return self._calls.read(paths[0], requests.get_many_request(whole), parse)

    def _children_call(self, path: str, watch: Watch | None) -> Call:
        whole = whole_path(self._calls.chroot, path)

        def parse(answer: Any) -> list[str]:
            if watch is not None:
                self._calls.watches.add_children(whole, watch)
            return sorted(answer[0])

        request = requests.children_request(whole, watched=watch is not None)
        return self._calls.read(path, request, parse)

    def _rights_call(self, path: str, rights_of: RightsOf) -> Call:
        whole = whole_path(self._calls.chroot, path)
        request = requests.set_rights_request(whole, rights_of(path))
        return self._calls.read(path, request, lambda _: None)  # which may be done twice

    def _get_call(self, path: str, watch: Watch | None) -> Call:
        whole = whole_path(self._calls.chroot, path)

        def parse(answer: Any) -> Node:
            if watch is not None:
                self._calls.watches.add_data(whole, watch, exists=True)
            return answer[0], requests.stat_of(answer[1])

        return self._calls.read(path, requests.get_request(whole, watched=watch is not None), parse)

    async def _ask_all(self, makers: Sequence[Callable[[], Call]]) -> list[Any]:
        """Results or errors of many calls, in their order; raises TreeUnavailableError.

        Only a few more than can be sent are asked for at a time: others get their turn between
        them.
        """
        results: list[Any] = []
        asked: deque[asyncio.Future[Any]] = deque()
        try:
            for make in makers:
                try:
                    asked.append(self._calls.ask(make()))
                except NodeTooLargeError as error:
                    asked.append(_failed(error))
                if len(asked) > 2 * self._max_in_flight:
                    results.append(await _result(asked.popleft()))
            while asked:
                results.append(await _result(asked.popleft()))
        finally:
            for future in asked:
                if not future.cancel() and not future.cancelled():
                    future.exception()  # looked at: the error that ended the row has been raised
        return results


def _found(answer: Any, path: str) -> Node | None:
    """One node of many. Raises any refusal, except that the node does not exist."""
    if not isinstance(answer, Exception):
        found: Node = answer
        return found
    error = requests.tree_error(answer, path)
    if isinstance(error, NoNodeError):
        return None
    raise error


def _is_gone(answer: Any) -> bool:
    """True for a node that does not exist. Raises any other refusal."""
    if isinstance(answer, TreeError) and not isinstance(answer, NoNodeError):
        raise answer
    return isinstance(answer, NoNodeError)


async def _result(future: asyncio.Future[Any]) -> Any:
    try:
        return await future
    except TreeUnavailableError:
        raise
    except TreeError as error:
        return error


def _failed(error: TreeError) -> asyncio.Future[Any]:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    future.set_exception(error)
    return future
