"""The command that compares two brokers prints what its page shows."""

from __future__ import annotations

from pathlib import Path

from compat_tests.conftest import BrokerProcess
from tests.docs.pages import ROOT, section, shown_commands, text_of
from tests.docs.terminals import DEFAULT_ADDRESS, run, settled

_SECTION = section(text_of("compatibility"), "## Compare two brokers")
_SECOND_ADDRESS = "127.0.0.1:9093"


def test_two_brokers_are_compared_as_shown(tmp_path: Path) -> None:
    starting, shown = shown_commands(_SECTION)
    brokers = [BrokerProcess(tmp_path / name / "data") for name in ("first", "second")]
    command = shown.command
    for broker, address in zip(brokers, (DEFAULT_ADDRESS, _SECOND_ADDRESS), strict=True):
        broker.start()
        command = command.replace(address, broker.bootstrap)

    output = run(["bash", "-c", command], ROOT, timeout_s=100)

    assert [broker.stop() for broker in brokers] == [0, 0]
    assert starting.command == "make compare A=kbroker B=kafka-3.9.2"
    assert settled(output) == settled(shown.output)
