"""Real ZooKeeper servers for tests: one, or an ensemble, over data directories that outlive them.

Knows nothing of kbroker. ZooKeeper comes with pyspark's jars, so it needs nothing but a JRE.

    with zookeeper_servers(3) as servers:
        servers.connect("/kafka")           # "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3/kafka"
        servers.leader().kill()             # stop, pause, resume, start, restart
        servers.expire_session(session_id)  # as if its client had not been heard of
        servers.ephemerals()                # {session id: paths}
"""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from compat_tests.running.apache_kafka import free_port
from compat_tests.running.class_archive import SHORT_LIVED, ClassArchive
from compat_tests.running.prerequisites import NotAvailableError, cache_directory

START_TIMEOUT_S = 60
TICK_MS = 100  # sessions end within a tick of their time-out; the shortest is two ticks
MAX_SESSION_TIMEOUT_MS = 120_000

# Only what a server loads: the JVM would search all of Spark's jars for each class.
_JARS = (
    "zookeeper-*.jar", "slf4j-api-*.jar", "log4j-api-*.jar", "log4j-core-*.jar",
    "log4j-slf4j2-impl-*.jar", "netty-*.jar", "metrics-core-*.jar", "snappy-java-*.jar",
    "commons-cli-*.jar", "commons-io-*.jar",
)  # fmt: skip

_CONFIG = """dataDir={directory}/data
clientPort={port}
clientPortAddress=127.0.0.1
tickTime={tick_ms}
initLimit={init_limit}
syncLimit={sync_limit}
minSessionTimeout={min_session_ms}
maxSessionTimeout={max_session_ms}
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=*
preAllocSize=512
forceSync={force_sync}
"""
_INIT_S, _SYNC_S = 10, 4  # how long a follower may be behind before it is given up


@dataclass
class ZooKeeperServer:
    """One server. Its tree and its sessions are in `directory` and survive stop and kill."""

    directory: Path
    port: int
    myid: int = 1
    peers: Sequence[str] = ()  # lines server.N=... when it belongs to an ensemble
    tick_ms: int = TICK_MS
    fsync: bool = False  # a killed process loses nothing without it, a lost machine would
    java_options: Sequence[str] = ()
    settings: Sequence[str] = ()  # more lines of zoo.cfg
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    _archive: ClassArchive | None = field(default=None, init=False, repr=False)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        """The output of all runs."""
        return self.directory / "zookeeper.log"

    def start(self, *, wait: bool = True) -> None:
        """Start it; returns when it serves (a server of an ensemble: when that has a quorum)."""
        assert self.process is None
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "data").mkdir(exist_ok=True)
        (self.directory / "data" / "myid").write_text(str(self.myid))
        config = self.directory / "zoo.cfg"
        config.write_text(
            _CONFIG.format(
                directory=self.directory,
                port=self.port,
                tick_ms=self.tick_ms,
                init_limit=_INIT_S * 1000 // self.tick_ms,
                sync_limit=_SYNC_S * 1000 // self.tick_ms,
                min_session_ms=2 * self.tick_ms,
                max_session_ms=MAX_SESSION_TIMEOUT_MS,
                force_sync="yes" if self.fsync else "no",
            )
            + "".join(f"{line}\n" for line in (*self.peers, *self.settings))
        )
        self._archive = class_archive()
        options = [*self._archive.using(), *self._archive.making(), *self.java_options]
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                java_command(str(config), options), stdout=output, stderr=output
            )
        if wait:
            self.wait_until_serving()

    def wait_until_serving(self) -> None:
        """Return when it answers requests. Raises RuntimeError with its log when it ended."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self.is_serving():
            if self.process is None or self.process.poll() is not None:
                raise RuntimeError(f"did not start: {self.log_text()[-4000:]}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"does not serve: {self.log_text()[-4000:]}")
            time.sleep(0.02)

    def stop(self) -> None:
        """Stop it in good order."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a crash would."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Let it hang: connections stay, nothing answers."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on after a pause."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def restart(self, *, kill: bool = False) -> None:
        """Stop (or kill) it and start it again on the same port."""
        self._end(signal.SIGKILL if kill else signal.SIGTERM)
        self.start()

    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def is_serving(self) -> bool:
        return "Mode: " in self.command("srvr")

    def is_leader(self) -> bool:
        """Whether it leads (a server alone does)."""
        mode = self.command("srvr")
        return "Mode: leader" in mode or "Mode: standalone" in mode

    def command(self, word: str) -> str:
        """The answer to a four letter word (`srvr`, `dump`, `cons`, `wchp`, `mntr`); "" for none."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as connection:
                connection.sendall(word.encode())
                return b"".join(iter(lambda: connection.recv(65536), b"")).decode()
        except OSError:
            return ""

    def log_text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def _end(self, how: signal.Signals) -> None:
        if self.process is None:
            return
        self.process.send_signal(signal.SIGCONT)  # a paused one would not hear
        self.process.send_signal(how)
        try:
            self.process.wait(20)
            if self._archive is not None:
                self._archive.keep()
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None


@dataclass
class ZooKeeperServers:
    """One server, or several that form an ensemble."""

    servers: list[ZooKeeperServer]

    @property
    def server(self) -> ZooKeeperServer:
        """The first one (of one alone: the one)."""
        return self.servers[0]

    def connect(self, chroot: str = "") -> str:
        """The connect string; `chroot` begins with a slash and is not made here."""
        return ",".join(server.address for server in self.servers) + chroot

    def start(self) -> None:
        """Start those that do not run, and wait until all serve."""
        for server in self.servers:
            if not server.is_running():
                server.process = None
                server.start(wait=False)
        for server in self.servers:
            server.wait_until_serving()

    def stop(self) -> None:
        """Stop all."""
        for server in self.servers:
            server.stop()

    def kill(self) -> None:
        """Kill all."""
        for server in self.servers:
            server.kill()

    def leader(self) -> ZooKeeperServer:
        """The server that leads; waits until one does."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            for server in self.servers:
                if server.is_running() and server.is_leader():
                    return server
            time.sleep(0.02)
        raise RuntimeError("no server leads")

    def followers(self) -> list[ZooKeeperServer]:
        """Those that run and do not lead."""
        leader = self.leader()
        return [server for server in self.servers if server is not leader and server.is_running()]

    def expire_session(self, session_id: int, password: bytes | None = None) -> None:
        """End a session behind its client's back, at once: its ephemeral nodes go, and the client
        hears that it is over. (Without a password the one ZooKeeper derives from the id is used.)
        """
        serving = next(server for server in self.servers if server.is_serving())
        expire_session(serving.address, session_id, password)

    def ephemerals(self) -> dict[int, list[str]]:
        """The paths of the ephemeral nodes by the session that owns them, without chroot cut off."""
        answer = next(filter(None, (server.command("dump") for server in self.servers)), "")
        found: dict[int, list[str]] = {}
        paths: list[str] = []
        for line in answer.partition("Sessions with Ephemerals")[2].splitlines():
            if line.startswith("0x"):
                number = int(line.strip().rstrip(":"), 16)
                paths = found.setdefault(number - (number >> 63 << 64), [])
            elif line.startswith("\t/"):
                paths.append(line.strip())
        return {session: sorted(paths) for session, paths in found.items()}


@contextmanager
def zookeeper_servers(
    count: int = 1,
    *,
    directory: Path | None = None,
    tick_ms: int = TICK_MS,
    fsync: bool = False,
    java_options: Sequence[str] = (),
    settings: Sequence[str] = (),
) -> Iterator[ZooKeeperServers]:
    """`count` servers that serve. Their trees are in `directory` (None: a temporary one); `settings`
    are further lines of their files.

    Raises NotAvailableError where Java or pyspark is missing.
    """
    java_command("", ())
    root = directory or Path(tempfile.mkdtemp(prefix="zookeeper-servers-"))
    ports = [(free_port(), free_port(), free_port()) for _ in range(count)]
    peers = [
        f"server.{number}=127.0.0.1:{quorum}:{election}"
        for number, (_, quorum, election) in enumerate(ports, start=1)
    ]
    servers = ZooKeeperServers(
        [
            ZooKeeperServer(
                root / f"server-{number}",
                port,
                number,
                peers if count > 1 else (),
                tick_ms,
                fsync,
                java_options,
                settings,
            )
            for number, (port, _, _) in enumerate(ports, start=1)
        ]
    )
    try:
        servers.start()
        yield servers
    finally:
        if not class_archive().path.exists():
            servers.server.stop()
        servers.kill()
        if directory is None:
            shutil.rmtree(root, ignore_errors=True)


def java_command(config: str, java_options: Sequence[str]) -> list[str]:
    """The command line of a server with a small JVM. Raises NotAvailableError."""
    if shutil.which("java") is None:
        raise NotAvailableError("no java on PATH (install a Java 17 or 21 runtime)")
    return [
        "java", "-Xmx64m", "-Xss512k", *SHORT_LIVED, "-XX:-UsePerfData",
        "-Dorg.apache.logging.log4j.level=INFO", "-Dzookeeper.jmx.log4j.disable=true", *java_options,
        "-cp", _class_path(), "org.apache.zookeeper.server.quorum.QuorumPeerMain", config,
    ]  # fmt: skip


def class_archive() -> ClassArchive:
    """Classes of a server; one that is stopped in good order makes it where it is missing."""
    known_by = hashlib.sha256(_class_path().encode()).hexdigest()[:12]
    return ClassArchive(cache_directory(), f"zookeeper-{known_by}")


def _class_path() -> str:
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise NotAvailableError("no pyspark, whose jars bring ZooKeeper (pip install pyspark)")
    folder = Path(found.origin).parent / "jars"
    return ":".join(str(jar) for pattern in _JARS for jar in sorted(folder.glob(pattern)))


def expire_session(address: str, session_id: int, password: bytes | None = None) -> None:
    """End a session by taking it over and closing it. Raises OSError when the server goes away."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            _close_session(address, session_id, password or session_password(session_id))
            return
        except OSError:  # its owner was quicker to take it back: again
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _close_session(address: str, session_id: int, password: bytes) -> None:
    host, _, port = address.partition(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        request = struct.pack(">iqiqi", 0, 0, 10_000, session_id, len(password)) + password + b"\0"
        connection.sendall(struct.pack(">i", len(request)) + request)
        answer = _read_frame(connection)
        (timeout_ms,) = struct.unpack_from(">i", answer, 4)
        if timeout_ms <= 0:
            return  # it had ended already
        connection.sendall(struct.pack(">iii", 8, 1, -11))  # closeSession
        _read_frame(connection)


def session_password(session_id: int) -> bytes:
    """Return the password that ZooKeeper gives the owner of a session: java.util.Random's bytes,
    seeded by the id.
    """
    state = ((session_id ^ 0xB3415C00) ^ 0x5DEECE66D) & ((1 << 48) - 1)
    password = b""
    for _ in range(4):
        state = (state * 0x5DEECE66D + 0xB) & ((1 << 48) - 1)
        password += struct.pack("<I", state >> 16)
    return password


def _read_frame(connection: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", _read(connection, 4))
    return _read(connection, size)


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        if not chunk:
            raise OSError("the server closed the connection")
        data += chunk
    return data
