"""Real clients against a running broker. Nothing here imports kbroker: the suite takes an address.

`--target kbroker` (default) starts one broker of this checkout, `--target kafka` starts Apache
Kafka, which proves the expectations, `--target HOST:PORT` uses a broker that runs already.
`--target cluster` starts three brokers over a ZooKeeper, whose topics have three replicas where a
test names no other number; with `--restart-every 20` one of them is restarted every 20 s. Tests that
speak to one broker only are skipped there.
"""

from __future__ import annotations

import signal
import subprocess
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

from compat_tests.commands.command_line import Run, run
from compat_tests.running import apache_kafka
from compat_tests.running.forked_kbroker import ForkedKbroker
from compat_tests.running.prerequisites import NotAvailableError
from compat_tests.wire.wire_client import WireClient

ATTEMPTS = 4
TOO_FEW_BROKERS = "larger than available brokers"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("compat")
    group.addoption(
        "--target",
        default="kbroker",
        help="kbroker, cluster, kafka, or HOST:PORT of a running broker",
    )
    group.addoption(
        "--restart-every",
        type=float,
        metavar="SECONDS",
        help="with --target cluster: restart one broker after the other",
    )
    group.addoption("--records", type=int, default=2_000, help="records per client and codec")


@dataclass
class BrokerProcess:
    """A kbroker process with its data directory; can be stopped, killed and started again on the
    same port.
    """

    data: Path
    options: tuple[str, ...] = ()
    port: int = 0
    process: subprocess.Popen[str] | None = field(default=None, repr=False)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def launch(self) -> None:
        """Start the process and do not wait for it. Its port is given to nobody while it is away; one
        that stands for several brokers asks the system for theirs.
        """
        if "--brokers" not in self.options:
            self.port = self.port or apache_kafka.free_port()
        self.process = ForkedKbroker(
            "start", "--listen", f"127.0.0.1:{self.port}", "--data", str(self.data),
            "--log-format", "text", *self.options,
            stdout=subprocess.PIPE, stderr=self._log(), text=True,
        )  # fmt: skip

    def start(self) -> None:
        """Start, and return when clients can come."""
        self.launch()
        assert self.process is not None
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if "listening on" in line:
                self.port = int(line.strip().rpartition(":")[2])
                return
        raise RuntimeError(
            f"the broker ended with {self.process.wait()}: {self.log_text()[-2000:]}"
        )

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(how)
        code = self.process.wait(30)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code

    def log_text(self) -> str:
        path = self.data.parent / "broker.log"
        return path.read_text() if path.exists() else ""

    def _log(self) -> int:
        self.data.parent.mkdir(parents=True, exist_ok=True)
        with (self.data.parent / "broker.log").open("a") as log:
            return __import__("os").dup(log.fileno())


@pytest.fixture(scope="session")
def target(request: pytest.FixtureRequest) -> str:
    """The broker under test: kbroker, kafka, or an address."""
    return str(request.config.getoption("--target"))


@pytest.fixture(scope="session")
def bootstrap(
    target: str, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[str]:
    """Address of one broker for the whole run, or those of a cluster."""
    if target == "kbroker":
        broker = BrokerProcess(tmp_path_factory.mktemp("broker") / "data")
        broker.start()
        yield broker.bootstrap
        assert broker.stop() == 0, broker.log_text()[-3000:]
        assert "Traceback" not in broker.log_text()
    elif target == "cluster":
        from compat_tests.cluster.shared_brokers import three_brokers

        restart_every_s = request.config.getoption("--restart-every")
        with three_brokers(tmp_path_factory.mktemp("cluster"), restart_every_s) as addresses:
            yield addresses
    elif target == "kafka":
        with apache_kafka.broker() as (address, _):
            yield address
    else:
        yield target


@pytest.fixture
def own_broker(target: str, tmp_path: Path) -> Iterator[Callable[..., BrokerProcess]]:
    """A factory of brokers that a test may stop and kill; each has its own data directory."""
    if target != "kbroker":
        pytest.skip("stops and kills a kbroker of its own")
    started: list[BrokerProcess] = []

    def start(*options: str) -> BrokerProcess:
        broker = BrokerProcess(tmp_path / f"broker-{len(started)}" / "data", options)
        started.append(broker)
        broker.start()
        return broker

    yield start
    for broker in started:
        if broker.process is not None and broker.process.poll() is None:
            broker.stop()


@pytest.fixture
def kbroker(bootstrap: str) -> Run:
    """Runs a command against the shared broker, whose address is in the environment."""
    return partial(run, bootstrap=bootstrap)


@pytest.fixture
def one_broker(target: str) -> None:
    """For tests that say what there is where one broker is alone."""
    if target == "cluster":
        pytest.skip("is about one broker")


@pytest.fixture
def wire(one_broker: None, bootstrap: str) -> Iterator[WireClient]:
    """A fresh connection."""
    client = WireClient(bootstrap)
    yield client
    client.close()


@pytest.fixture
def topic() -> str:
    """A topic name that nobody else uses."""
    return f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def group() -> str:
    """A group name that nobody else uses."""
    return f"g-{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def records(request: pytest.FixtureRequest) -> int:
    """How many records a client writes per codec."""
    return int(request.config.getoption("--records"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Where brokers are restarted, a test starts over that one of its clients could not make a topic
    for: with a broker away there is no room for its replicas, and Apache Kafka refuses it, too.
    """
    if not item.config.getoption("--restart-every"):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for left in reversed(range(ATTEMPTS)):
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        if left == 0 or not any(TOO_FEW_BROKERS in report.longreprtext for report in reports):
            break
        item._initrequest()  # fixtures of its own, such as its topic's name
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """A client that is not installed skips its test, with the reason."""
    if call.excinfo is not None and call.excinfo.errisinstance(NotAvailableError):
        reason = str(call.excinfo.value)
        try:
            pytest.skip(reason)
        except pytest.skip.Exception:
            call.excinfo = pytest.ExceptionInfo.from_current()
    yield
