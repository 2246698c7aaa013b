"""Plays the sessions under tests/golden/cli, and records what the commands in them print.

    .venv/bin/python -m tests.golden.command_outputs --record

A session is a text: lines that begin with `$ ` are commands, what they printed follows them (`1|`
standard output, `2|` standard error, `exit N` where it is not 0), other lines are comments. All of
them are played in the order of their names against one broker, beside a second one, which has an
authorizer, and a third one that its users log in to. A comment after a command, set off
by two spaces, says how it runs:

    on N columns              on a terminal of that width, with standard error on it too
    nobody reads              standard output is a pipe whose reader has gone
    Ctrl-C after N lines      interrupted when it has printed so many
    Ctrl-C after N s          interrupted then; standard input stays open until then
    until the end             runs on beside the others from its first line on; is not recorded

`printf 'TEXT' |` before a command is its standard input. Lines that begin with `% ` are for a shell,
and prepare files. Commands run in forks of this process, which has imported them: a fork costs a
tenth of an interpreter.
"""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import select
import shlex
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

HOME = Path(__file__).parent / "cli"
_ROOT = Path(__file__).resolve().parents[2]
SHOWN_ADDRESS = "127.0.0.1:19092"  # as wide as any
SHOWN_OTHER = "127.0.0.1:19093"  # of a broker that is another cluster
SHOWN_SECURED = "127.0.0.1:19094"  # of one whose user `ann` logs in
SHOWN_HTTP = "127.0.0.1:8080"
SHOWN_TOKEN = "gLHtRC2CQWKDwV1Fg9WXcA"  # the last one that a command has made or shown
_LINE = re.compile(r"\$ (?P<shell>.*?)(?:  # (?P<manner>.*))?")
_INPUT = re.compile(r"printf '(?P<text>[^']*)' \| ")
_TIMEOUT_S = 20.0
# What commands import when they are called, beside those that any test may fork.
_IMPORTED = (
    "click._textwrap", "difflib", "kafka",
    "kbroker.cli.records.group_records",
    "kbroker.cli.kafka_tools.configs",
    "kbroker.cli.kafka_tools.console_consumer",
    "kbroker.cli.kafka_tools.console_producer",
    "kbroker.cli.kafka_tools.consumer_groups",
    "kbroker.cli.kafka_tools.get_offsets",
    "kbroker.cli.kafka_tools.storage",
    "kbroker.cli.kafka_tools.topics",
    "kbroker.server.metadata_tree.tree_move",
    "kbroker.zk.tree_copy",
)  # fmt: skip
_INSTANT = "2026-11-30T12:00:00+00:00"
# Records have the times that sessions show, which retention would look at soon after the start.
_WITH_TOKENS = {"delegation.token.secret.key": "a secret of the brokers"}
_GUARDED = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}
_KEEPS_ALL = {"log.initial.task.delay.ms": 86_400_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A line of a session."""

    arguments: list[str]
    stdin: bytes = b""
    environment: Mapping[str, str] = field(default_factory=dict)
    manner: str = ""

    @property
    def columns(self) -> int | None:
        found = re.fullmatch(r"on (\d+) columns", self.manner)
        return int(found[1]) if found else None

    @property
    def interrupt_s(self) -> float | None:
        """Seconds until Ctrl-C; None where there is none, or one after a line."""
        found = re.fullmatch(r"Ctrl-C after ([\d.]+) s", self.manner)
        return float(found[1]) if found else None

    @property
    def interrupt_lines(self) -> int:
        """Lines until Ctrl-C; 0 where it does not wait for any."""
        found = re.fullmatch(r"Ctrl-C after (\d+) lines", self.manner)
        return int(found[1]) if found else 0


@dataclass(slots=True, kw_only=True)
class Running:
    """A fork, with the ends of its pipes that are ours."""

    pid: int
    stdin: int | None
    outputs: dict[int, bytearray]  # by descriptor, standard output first
    has_ended: bool = False  # all of its outputs

    def read(self, *, lines: int = 0, timeout_s: float = _TIMEOUT_S) -> None:
        """Read until it ends, has printed so many lines (0: all), or time is up."""
        ends = time.monotonic() + timeout_s
        opened = set(self.outputs)
        while opened and (left_s := ends - time.monotonic()) > 0:
            for descriptor in select.select(list(opened), [], [], left_s)[0]:
                data = b""
                with suppress(OSError):  # a terminal whose other end has gone
                    data = os.read(descriptor, 65_536)
                if not data:
                    opened.remove(descriptor)
                self.outputs[descriptor] += data
            if 0 < lines <= sum(said.count(b"\n") for said in self.outputs.values()):
                return
        self.has_ended = not opened

    def interrupt(self) -> None:
        os.kill(self.pid, signal.SIGINT)

    def end(self) -> int:
        """Its exit code; that of a kill where it had its time and still writes."""
        if self.stdin is not None:
            os.close(self.stdin)
        if not self.has_ended:
            os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        for descriptor in self.outputs:
            os.close(descriptor)
        return os.waitstatus_to_exitcode(status)


def parsed(line: str) -> Command:
    found = _LINE.fullmatch(line)
    assert found is not None, line
    shell, stdin = found["shell"], b""
    if given := _INPUT.match(shell):
        stdin = given["text"].encode().decode("unicode_escape").encode("latin-1")
        shell = shell[given.end() :]
    words = shlex.split(shell)
    at = words.index("kbroker")
    return Command(
        arguments=words[at + 1 :],
        stdin=stdin,
        environment=dict(word.split("=", 1) for word in words[:at]),
        manner=found["manner"] or "",
    )


class Player:
    """Plays sessions against one broker, in one directory; `http` is its HTTP address, `other` the
    second broker, `secured` the third.
    """

    def __init__(self, address: str, http: str, other: str, secured: str, directory: Path) -> None:
        self.address = address
        self._http = http
        self._other = other
        self._secured = secured
        self._token = SHOWN_TOKEN
        self._directory = directory
        properties = (directory / "data" / "meta.properties").read_text()
        (self._cluster_id,) = re.findall(r"^cluster\.id=(.*)$", properties, re.MULTILINE)

    def parsed(self, line: str) -> Command:
        """A line of a session, with the addresses that the brokers have now."""
        line = line.replace(SHOWN_ADDRESS, self.address).replace(SHOWN_HTTP, self._http)
        line = line.replace(SHOWN_SECURED, self._secured).replace(SHOWN_TOKEN, self._token)
        return parsed(line.replace(SHOWN_OTHER, self._other))

    def play(self, session: str) -> str:
        """The session with what its commands print now."""
        lines = []
        beside: list[Running] = []
        for line in session.splitlines():
            if line.startswith("$ "):
                command = self.parsed(line)
                lines.append(line)
                if command.manner == "until the end":
                    beside.append(started(command, self.address))
                    beside[-1].read(lines=1)
                else:
                    lines += self._settled(recorded(command, self.address))
            elif not re.match(r"[12]\||exit ", line):
                lines.append(line)
                if line.startswith("% "):
                    self._prepare(line[2:])
        for running in beside:
            running.interrupt()
            running.read()
            running.end()
        return "\n".join(lines) + "\n"

    def _prepare(self, shell: str) -> None:
        """`$PYTHON -m tests.golden.MODULE $BROKER` prepares what no command can."""
        known = {"PYTHON": sys.executable, "PYTHONPATH": str(_ROOT), "BROKER": self.address}
        # Else Hypothesis, which the library of the test's connections imports, makes tables of all
        # characters in each directory anew.
        known |= {"HYPOTHESIS_STORAGE_DIRECTORY": str(_ROOT / ".hypothesis")}
        subprocess.run(["sh", "-ec", shell], check=True, env=os.environ | known)

    def _without_token(self, line: str) -> str:
        found = _TOKEN_ID.search(line)
        if found is not None:
            self._token = found[0]
        text = line.replace(self._token, SHOWN_TOKEN)
        text = re.sub(r"\b[\w+/]{86}==", _HMAC, text)
        return re.sub(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", _MOMENT, text)

    def _settled(self, lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            text = line.replace(self.address, SHOWN_ADDRESS).replace(self._other, SHOWN_OTHER)
            text = text.replace(self._http, SHOWN_HTTP).replace(self._secured, SHOWN_SECURED)
            text = self._without_token(text)
            text = text.replace(str(self._directory), "/files")
            text = re.sub(r"/\S*/kbroker-\w{8}\b", "/tmp/kbroker-wk3c8xyz", text)
            text = re.sub(r"(?<=127\.0\.0\.1:)(?!1909[34])\d{5}\b", "19092", text)
            text = re.sub(r"\bin [\d.]+ s, [\d,]+ MB/s", "in N s, N MB/s", text)
            text = re.sub(r"\b[\d.]+ s, [\d,]+ rows/s", "N s, N rows/s", text)
            text = re.sub(r"\bin [\d.]+ s, [\d.]+ s of CPU", "in N s, N s of CPU", text)
            text = re.sub(r"\b\d{8}\.\d\b", "31536000.5", text)
            text = re.sub(r"\btime is up, in \d+ (s|min)\b", "time is up, in 15 min", text)
            text = re.sub(r"\bwritten to [\d.]+ h ago", "written to 8760.5 h ago", text)
            text = text.replace(self._cluster_id, _CLUSTER_ID)
            text = re.sub(rf"\bcluster (?!{_CLUSTER_ID})[\w-]{{22}}", f"cluster {_OTHER_ID}", text)
            text = re.sub(r"^1\| \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$", f"1| {_NOW}", text)
            text = re.sub(r"\b[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}\b", _UUID, text)
            text = re.sub(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", _INSTANT, text)
            text = re.sub(r"\bkbroker authority [\da-f]{8}", "kbroker authority 0123abcd", text)
            yield text.replace("\x1b", "ESC")


_TOKEN_ID = re.compile(r'(?<="token": ")[\w-]{22}|[\w-]{22}(?=  User:|  \d{4}-|,User:|,\d{4}-)')
_HMAC = f"{'HMAC' * 21}HM=="
_MOMENT = "2026-11-30T12:00:00Z"
_CLUSTER_ID = "kQ1-Jc7xQ5yZ0b9wT3rLaA"
_OTHER_ID = "Zt8uYw2mSx-0aK5nDfPq1g"
_NOW = "2026-11-21 10:00:00 UTC"
_UUID = "01234567-89ab-cdef-0123-456789abcdef"


def recorded(command: Command, address: str) -> list[str]:
    running = started(command, address)
    if command.interrupt_lines:
        running.read(lines=command.interrupt_lines)
        running.interrupt()
    elif command.interrupt_s is not None:
        running.read(timeout_s=command.interrupt_s)
        running.interrupt()
    running.read()
    code = running.end()
    lines = []
    first = 2 if command.manner == "nobody reads" else 1
    for number, said in enumerate(running.outputs.values(), first):
        text = said.decode(errors="backslashreplace").replace("\r\n", "\n")
        text = re.sub(r"(\r\x1b\[K[^\r\n]*)+", _last_of, text)
        *whole, rest = text.split("\n")
        lines += [f"{number}| {line}".rstrip() for line in whole]
        if rest:
            lines.append(f"{number}| {rest} (no end of line)")
    return lines if code == 0 else [*lines, f"exit {code}"]


def _last_of(found: re.Match[str]) -> str:
    """Return the last text of a line that was written over: how often it was is a matter of time."""
    return found[0].rpartition("\x1b[K")[2]


def started(command: Command, address: str) -> Running:
    """A fork that runs the command."""
    stays_open = command.interrupt_s is not None
    given, to_give = os.pipe()
    os.write(to_give, command.stdin)
    if command.columns is not None:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, command.columns, 0, 0))
        streams, outputs = (given, theirs, theirs), (ours,)
    else:
        (said, saying), (told, telling) = os.pipe(), os.pipe()
        streams, outputs = (given, saying, telling), (said, told)
    if not stays_open:
        os.close(to_give)
    if command.manner == "nobody reads":
        os.close(outputs[0])
        outputs = outputs[1:]
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        for descriptor in {*outputs, *([to_give] if stays_open else [])}:
            os.close(descriptor)
        _become(streams, command, address)
    for descriptor in set(streams):
        os.close(descriptor)
    return Running(
        pid=pid,
        stdin=to_give if stays_open else None,
        outputs={descriptor: bytearray() for descriptor in outputs},
    )


def _become(streams: tuple[int, int, int], command: Command, address: str) -> NoReturn:
    """Be the `kbroker` command with these streams, and end as the interpreter would."""
    for standard, descriptor in enumerate(streams):
        os.dup2(descriptor, standard)
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(open(0, "rb", closefd=False))  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(  # noqa: SIM115
        2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False
    )
    os.environ |= {"KBROKER_BOOTSTRAP": address, **command.environment}
    # As at a terminal: who runs tests in the background has it ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    code = 1
    try:
        before_running()
        _run(command.arguments)
    except SystemExit as ended:
        code = int(ended.code or 0)
    except BaseException:
        traceback.print_exc()
    try:
        sys.stdout.flush()
    except OSError:
        code = 120
    os._exit(code)


def before_running() -> None:
    """Do nothing before the command of a fork; `command_ends` puts something else here."""


def _run(arguments: list[str]) -> None:
    from kbroker.cli.__main__ import main

    main(arguments)


def _reach_an_ensemble_of_files() -> None:
    """For the commands of the forks, `ensemble:2181/PATH` is a tree in the directory ensemble/PATH;
    other servers of a ZooKeeper are given less time than people need.
    """
    from kbroker.log.disk.file_system import RealFileSystem
    from kbroker.server.system_clock import SystemClock
    from kbroker.zk.embedded.embedded_tree import EmbeddedTree
    from kbroker.zk.embedded.tree_directory import TreeDirectory
    from kbroker.zk.ensemble import kazoo_tree
    from kbroker.zk.tree_copy import read_tree

    open_kazoo_tree = kazoo_tree.open_kazoo_tree

    async def open_tree(connect: str, *_timeouts_ms: int, makes_chroot: bool, **access: Any) -> Any:
        hosts, chroot = kazoo_tree.parse_connect(connect)
        if hosts != "ensemble:2181":
            return await open_kazoo_tree(connect, 300, 300, makes_chroot=makes_chroot, **access)
        path = Path("ensemble", chroot.strip("/"))
        path.mkdir(parents=True, exist_ok=True)
        tree = EmbeddedTree(SystemClock(), TreeDirectory(RealFileSystem(), str(path))).session()

        async def set_rights(_: object) -> int:  # which such a tree has none of
            return len((await read_tree(tree)).nodes)

        tree.set_rights = set_rights  # type: ignore[attr-defined]
        return tree

    kazoo_tree.open_kazoo_tree = open_tree


def _import_commands() -> None:
    """Import, once, what any command would import, also when it runs."""
    import click

    from compat_tests.running.forking_server import PIPELINE, import_commands
    from kbroker.cli.command_line import cli

    def walk(group: click.Group) -> None:
        for name in group.list_commands(click.Context(group)):
            inner = group.get_command(click.Context(group), name)
            if isinstance(inner, click.Group):
                walk(inner)

    walk(cli)
    import_commands(*_IMPORTED, *PIPELINE)


@contextmanager
def playing() -> Iterator[Player]:
    """A player, while its broker runs."""
    from compat_tests.running.apache_kafka import free_port
    from kbroker.testing import Broker

    http = f"127.0.0.1:{free_port()}"
    settings = {**_KEEPS_ALL, "kbroker.http.listeners": http}
    for name in [name for name in os.environ if name.startswith(("KAFKA_", "KBROKER_"))]:
        del os.environ[name]
    for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"):
        os.environ.pop(name, None)
    os.environ |= {"TZ": "UTC", "TERM": "xterm"}
    time.tzset()
    with (
        tempfile.TemporaryDirectory() as temporary,
        Broker(data=Path(temporary, "data"), settings=settings) as broker,
        Broker(settings=_KEEPS_ALL | _GUARDED) as other,
        Broker(settings=_WITH_TOKENS, users={"ann": "secret"}) as secured,
    ):
        os.chdir(temporary)
        _import_commands()
        _reach_an_ensemble_of_files()
        addresses = http, other.bootstrap, secured.bootstrap
        yield Player(broker.bootstrap, *addresses, Path(temporary))


def main(target: str) -> None:
    """Write the sessions to a directory as they are played now; `--record`: over those there are."""
    directory = HOME if target == "--record" else Path(target).resolve()
    with playing() as player:
        play_all(player, directory)


def play_all(player: Player, directory: Path) -> None:
    """Write all sessions there as they are played now."""
    for path in sorted(HOME.glob("*.txt")):
        (directory / path.name).write_text(player.play(path.read_text()))


if __name__ == "__main__":
    main(*sys.argv[1:])
