"""The page about transactions: its producer leaves one open, and its commands show and end what there
is.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.clients.hanging_transactions import UNVERIFIED, hang
from compat_tests.conftest import BrokerProcess
from compat_tests.running.waiting import until
from compat_tests.wire.wire_client import WireClient
from tests.docs.pages import ROOT, Shown, blocks, section, shown_commands, text_of
from tests.docs.terminals import DEFAULT_ADDRESS, environment, settled

PAGE = text_of("transactions")
(PRODUCER,) = blocks("python", PAGE)
TOPIC, PRODUCER_ID = "payments", 4711
END_OFFSET = 2  # after a record and its marker


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    broker = BrokerProcess(tmp_path / "broker" / "data", ("--override", UNVERIFIED))
    broker.start()
    yield broker.bootstrap
    broker.stop()


def printed(command: str, address: str) -> str:
    """Standard output and error together; find-hanging ends with 1 where it finds something."""
    done = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, env=environment(KBROKER_BOOTSTRAP=address),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    return unvarying(done.stdout)


def unvarying(text: str) -> str:
    """How long ago something was, or will be, has as many digits as on the page for a while only."""
    return re.sub(r" +\d+\.\d\b|(?<= in) \d+(?= s\b)", " SECONDS", settled(text))


def check(commands: list[Shown], address: str) -> None:
    for shown in commands:
        assert (shown.command, printed(shown.command, address)) == (
            shown.command, unvarying(shown.output),
        )  # fmt: skip


def test_transactions_are_seen_found_and_ended_as_shown(address: str) -> None:
    seen, gone, found, ended, settled_on = (
        shown_commands(section(PAGE, heading))
        for heading in (
            "## See what is open",
            "## When a producer is gone",
            "## Find transactions that hang",
            "## End one",
            "## The protocol of Apache Kafka 4.x",
        )
    )
    wire = WireClient(address)
    wire.create_topic(TOPIC)
    code = PRODUCER.replace(DEFAULT_ADDRESS, address)
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as producer:
        is_open = seen[-1]
        until(
            lambda: printed(is_open.command, address) == unvarying(is_open.output),
            "the transaction is open",
        )
        check(seen, address)
        producer.communicate(b"\n")
    assert producer.returncode == 0

    hang(wire, TOPIC, PRODUCER_ID, END_OFFSET)
    wire.close()
    check(found + ended, address)
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as killed:
        until(lambda: " Ongoing " in printed("kbroker txn list", address), "it is open again")
        killed.kill()
    check(gone + settled_on, address)
