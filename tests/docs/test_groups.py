"""The page about groups: its consumers change their protocol one by one, and back, as it says."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from compat_tests.conftest import BrokerProcess
from compat_tests.running.waiting import until
from compat_tests.wire.wire_client import WireClient
from tests.docs.pages import ROOT, Shown, blocks, section, text_of
from tests.docs.terminals import DEFAULT_ADDRESS, environment

PAGE = text_of("groups")
STEPS = section(PAGE, "## From one protocol to the other")
(PROGRAM,) = blocks("python", STEPS)
TOPIC, PARTITIONS = "payments", 6


def shown_in_steps() -> list[Shown]:
    """The commands of the numbered steps, whose blocks are set in."""
    lines = [line.removeprefix("   ") for line in STEPS.splitlines() if line.startswith("   ")]
    pieces = "\n".join(line for line in lines if not line.startswith("```")).split("$ ")[1:]
    found = [Shown(*piece.split("\n", 1)) for piece in pieces]
    return [Shown(each.command, _table(each.output)) for each in found]


def _table(text: str) -> str:
    """The lines of a table, without the text of the step that comes after it."""
    return "".join(f"{line}\n" for line in text.splitlines() if line and "  " in line)


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    broker = BrokerProcess(tmp_path / "broker" / "data")
    broker.start()
    wire = WireClient(broker.bootstrap)
    wire.create_topic(TOPIC, PARTITIONS)
    wire.close()
    yield broker.bootstrap
    broker.stop()


@contextmanager
def member(address: str, protocol: str) -> Iterator[None]:
    code = PROGRAM.replace(DEFAULT_ADDRESS, address).replace('"classic"', f'"{protocol}"')
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(100)


def printed(command: str, address: str) -> str:
    done = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, env=environment(KBROKER_BOOTSTRAP=address),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    return done.stdout


def test_a_group_goes_from_one_protocol_to_the_other_and_back_as_shown(address: str) -> None:
    features, before, changed, back = shown_in_steps()

    def is_shown(step: Shown) -> None:
        until(
            lambda: printed(step.command, address) == step.output,
            f"{step.command} prints\n{step.output}",
        )

    is_shown(features)
    with member(address, "classic"):
        with member(address, "classic"):
            is_shown(before)
        with member(address, "consumer"):
            is_shown(changed)
        with member(address, "classic"):
            is_shown(back)
