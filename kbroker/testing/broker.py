"""A broker of a test's own, in a child process: `kbroker start`, as anybody would start it.

The child ends with this process, also when that is killed: its standard input is a pipe that only
this process holds open, and it stops when the pipe ends.

Law: imports only what pytest has imported already. Every session of pytest reads this file, where
kbroker is installed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Self

if TYPE_CHECKING:  # a broker without security does without them
    from kbroker.acl.rule_words import AclRule
    from kbroker.client.quota_words import QuotaWish
    from kbroker.testing.client_settings import Access
    from kbroker.testing.secured_broker import SecuredBroker

_READY = "listening on "
_WARNING = "warning: "
_ERROR = r"^Error: "
_STOP_TIMEOUT_S = 30
# A caller's environment often has such variables for clients. Without them a test has the same
# broker on every machine.
_SETTING_VARIABLES = ("KAFKA_", "KBROKER_", "CLUSTER_ID")
_MOST_SAID = 4_000  # characters of what a child said in an error
# Others on the machine see arguments of a process (`ps`), and not its environment.
_SECRET = re.compile(r"password|secret|jaas|token|\.key$|first\.user")
_PROVIDER = "of-test"
_PROVIDER_CLASS = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"


class BrokerError(Exception):
    """The broker did not start, or ended by itself; the message is its own sentence."""


class Broker:
    """A broker for a `with` or `async with` block, or between `start` and `stop`.

        with Broker() as broker:
            producer = KafkaProducer(bootstrap_servers=broker.bootstrap)

    `port` 0 takes a free one. `settings` go by Kafka's names. Several `brokers` are one cluster;
    all but the first listen on the next free ports. Without a directory `data` nothing is kept.
    All else is as `kbroker start` has it, except that variables of the environment do not count.

        with Broker(tls=True, users={"ann": "secret"}) as broker:
            producer = Producer(broker.client("ann", "confluent-kafka"))

    With `tls` clients have to trust the authority in the file `ca`; this needs the extra
    `kbroker[security]`. `users`, passwords by name, log in by SCRAM or PLAIN. They may do
    everything, or, with `acls`, what these rules allow, which are in the words of `kbroker acl`:

        Broker(users={"ann": "secret"}, acls=["allow ann read --topic orders- --prefixed"])

    `quotas` are lines in the words of `kbroker quota set`, such as "--user ann producer=1MB/s".
    """

    def __init__(  # noqa: PLR0913 - what a broker may be made with
        self,
        *,
        port: int = 0,
        settings: Mapping[str, object] | None = None,
        brokers: int = 1,
        data: str | os.PathLike[str] | None = None,
        tls: bool = False,
        users: Mapping[str, str] | None = None,
        acls: Iterable[str] | None = None,
        quotas: Iterable[str] = (),
    ) -> None:
        """Raises ValueError for a line of `acls` that is not a rule."""
        texts = {name: _text(value) for name, value in (settings or {}).items()}
        self._secrets = _take_secrets(texts)
        self._port = port
        self._tls, self._users = tls, dict(users or {})
        self._rules = None if acls is None else _rules_in(acls, self._users)
        self._quotas: list[QuotaWish] = []
        if quotas:
            from kbroker.testing.given_quotas import wishes_in

            self._quotas = wishes_in(quotas)
        self._secured: SecuredBroker | None = None
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._options = [
            f"--brokers={brokers}",
            *([] if data is None else [f"--data={os.fspath(data)}"]),
            # First, so that a setting of the caller's counts: nobody looks at a test's broker.
            "--override=kbroker.http.listeners=",
            *(f"--override={name}={text}" for name, text in texts.items()),
        ]
        self._listeners = max(1, brokers) * max(1, texts.get("listeners", "").count("://"))
        self._process: subprocess.Popen[str] | None = None
        self._said: IO[bytes] | None = None
        self._addresses: list[str] = []

    @property
    def bootstrap(self) -> str:
        """Where clients connect: HOST:PORT, of several brokers separated by commas."""
        if not self._addresses:
            raise BrokerError("the broker is not running: its address is known from its start on")
        return ",".join(self._addresses)

    @property
    def ca(self) -> str:
        """The file with the authority that clients have to trust, in PEM."""
        found = self.access.ca
        if found is None:
            raise BrokerError("the broker has no certificate: it was made without tls=True")
        return found

    @property
    def access(self) -> Access:
        """The address and all else that a client needs to come in; another process can have it."""
        bootstrap = self.bootstrap
        if self._secured is None:
            raise BrokerError("the broker lets in everybody: it has neither tls nor users")
        return self._secured.access(bootstrap)

    def client(self, user: str | None, library: str) -> Any:
        """Return settings ready to use, see `Access.client`."""
        return self.access.client(user, library)

    def start(self, lifeline: int = subprocess.PIPE, files: str | None = None) -> None:
        """Return when clients can use it. Raises BrokerError.

        It stops when `lifeline`, a descriptor to read from, comes to its end. Certificates and
        passwords are in a directory that goes with it, or in `files`, which stays.
        """
        __tracebackhide__ = True  # pytest shows the caller's line and the broker's sentence
        assert self._process is None, "it runs already"
        # A file, because a pipe that nobody reads would hold the broker up once it is full.
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - `_end` closes it
        try:
            settings = self._secure_settings(files)
        except BaseException:
            self._said.close()
            self._let_files_go()
            raise
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-P", "-m", "kbroker.cli", "start", "--stop-at-eof"),
                *settings,
                *self._options,
            ],
            stdin=lifeline,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            env=_without_settings(os.environ) | self._secrets,
            start_new_session=True,  # Ctrl-C is for the tests: what they do last may need a broker
        )
        try:
            self._addresses = self._wait_until_ready(self._process)
            for line in self._all_said().splitlines():
                if line.startswith(_WARNING):
                    warnings.warn(line.removeprefix(_WARNING), stacklevel=3)
            if self._secured is not None:
                self._secured.admit(self.bootstrap)
            if self._quotas:
                self._set_quotas()
        except BaseException:
            self._end()
            raise

    def stop(self) -> None:
        """Stop it; its data is gone then, unless it has a directory of its own.

        Raises BrokerError if it had ended by itself.
        """
        __tracebackhide__ = True
        if self._process is None:
            return
        code, said = self._process.poll(), self._all_said()
        self._end()
        if code is not None:
            raise BrokerError(
                f"the broker ended by itself with exit code {code}: {sentence_in(said)}"
            )

    def leave(self) -> None:
        """Let it run without this object: who holds its lifeline ends it."""
        assert self._process is not None
        self._process.returncode = 0  # so that nobody stops it, waits for it, or warns of it
        self._end()

    def __enter__(self) -> Self:
        __tracebackhide__ = True
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        __tracebackhide__ = True
        self.stop()

    async def __aenter__(self) -> Self:
        import asyncio  # who awaits this has it

        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        import asyncio

        await asyncio.to_thread(self.stop)

    def _secure_settings(self, files: str | None) -> list[str]:
        """The arguments that say where to listen, and to whom."""
        __tracebackhide__ = True
        if not (self._tls or self._users):
            return [f"--listen=127.0.0.1:{self._port}"]
        from kbroker.errors import ExplainedError
        from kbroker.testing.secured_broker import SecuredBroker

        if files is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="kbroker-files-")
            files = self._temporary.name
        else:
            os.makedirs(files, 0o700, exist_ok=True)
        self._secured = SecuredBroker(
            Path(files), self._users, has_tls=self._tls, rules=self._rules
        )
        try:
            return [str(self._secured.settings_file(self._port))]
        except ExplainedError as error:
            raise BrokerError(str(error)) from error

    def _set_quotas(self) -> None:
        from kbroker.testing.given_quotas import set_quotas

        bootstrap = self.bootstrap
        set_quotas(
            bootstrap if self._secured is None else self._secured.own_way(bootstrap), self._quotas
        )

    def _wait_until_ready(self, process: subprocess.Popen[str]) -> list[str]:
        __tracebackhide__ = True
        assert process.stdout is not None
        addresses = list(islice(addresses_in(process.stdout), self._listeners))
        if len(addresses) < self._listeners:
            code = process.wait()
            raise BrokerError(sentence_in(self._all_said()) or f"it ended with exit code {code}")
        return addresses

    def _all_said(self) -> str:
        """Return what the child wrote on standard error, without moving the position at which it
        writes.
        """
        assert self._said is not None
        number = self._said.fileno()
        return os.pread(number, os.fstat(number).st_size, 0).decode("utf-8", "replace")

    def _end(self) -> None:
        assert self._process is not None
        assert self._said is not None
        with self._process as process, self._said:  # closes the pipes
            process.terminate()
            try:
                process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
        self._process, self._said, self._addresses = None, None, []
        self._let_files_go()

    def _let_files_go(self) -> None:
        self._secured = None
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None


def addresses_in(lines: Iterable[str]) -> Iterator[str]:
    """HOST:PORT of each line that says where clients can connect."""
    for line in lines:
        if line.startswith(_READY):
            yield line.removeprefix(_READY).strip()


def sentence_in(said: str) -> str:
    """Why a start failed, of all that it said on standard error."""
    return re.split(_ERROR, said, flags=re.MULTILINE)[-1][-_MOST_SAID:].strip()


def _rules_in(lines: Iterable[str], users: Mapping[str, str]) -> list[AclRule]:
    from kbroker.cli.acl.rule_options import rules_in

    if not users:
        raise ValueError("acls need users: without logins all clients are the same to a broker")
    return [rule for line in lines for rule in rules_in(line)]


def _take_secrets(texts: dict[str, str]) -> dict[str, str]:
    """Put variables in place of secrets, and return what these are set to."""
    found = {}
    for number, name in enumerate(list(filter(_SECRET.search, texts))):
        variable = f"SECRET_OF_TEST_BROKER_{number}"
        found[variable] = texts[name]
        texts[name] = f"${{{_PROVIDER}:{variable}}}"
    if found:
        others = texts.get("config.providers")
        texts["config.providers"] = _PROVIDER if not others else f"{others},{_PROVIDER}"
        texts[f"config.providers.{_PROVIDER}.class"] = _PROVIDER_CLASS
    return found


def _without_settings(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith(_SETTING_VARIABLES)
    }


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
