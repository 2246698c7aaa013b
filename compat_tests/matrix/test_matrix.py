"""The table of clients itself: how a cell comes to its state, and that none is without a reason."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from compat_tests.commands.command_line import HEEDING
from compat_tests.matrix.__main__ import main
from compat_tests.matrix.cells import Cell, Result, State, kept, load, save
from compat_tests.matrix.client import Client, clients
from compat_tests.matrix.pages import markdown, page
from compat_tests.matrix.run import run
from compat_tests.matrix.scenarios import SCENARIOS
from compat_tests.matrix.targets import at_address
from compat_tests.wire.wire_client import METADATA, WireClient

ADAPTER = """
import sys
from compat_tests.matrix.serving.serve import BrokerError, serve
class Broken:
    def __init__(self, bootstrap): print("noise")
    def hello(self): return {"version": "7"}
    def code(self, error): return None
    def ends(self, topic): raise BrokerError(35, "too old")
    def offset_at(self, topic, timestamp): sys.exit("gone")
    def read(self, **request): raise ValueError("no records")
serve(Broken)
"""


@pytest.fixture
def broken(tmp_path: Path) -> Client:
    """A client that does nothing right."""
    (tmp_path / "adapter.py").write_text(ADAPTER)
    some = next(each for each in clients() if each.name == "aiokafka")
    return replace(some, name="broken", folder=tmp_path, limits={}, lacks={"zstd": "none yet"})


def test_a_cell_says_why_it_is_not_ok(bootstrap: str, broken: Client) -> None:
    target = at_address(bootstrap.partition(",")[0])

    cells = run([broken], ["seek", "times", "zstd", "restart"], target, told=lambda cell: None)
    away = replace(broken, needs={"no-such-program": "install it"})
    missing = run([away], ["seek"], target, told=lambda cell: None)
    ancient = replace(broken, newest_fetch=-1)
    old = run([ancient], ["seek", "zstd"], target, told=lambda cell: None)

    assert [(cell.version, cell.state, cell.reason) for cell in cells] == [
        ("7", State.FAILED, "ValueError: no records"),
        ("7", State.FAILED, "the program ended with 1: noise gone"),
        ("7", State.NOT_IN_CLIENT, "none yet"),
        ("7", State.NOT_RUN, "the run did not start this broker"),
    ]
    assert [cell.state for cell in (*missing, *old)] == [
        State.NOT_HERE, State.NOT_SERVED, State.NOT_IN_CLIENT,
    ]  # fmt: skip
    assert missing[0].reason == "no no-such-program on PATH (install it)"


def test_ctrl_c_in_the_library_that_the_run_itself_uses_ends_it(
    bootstrap: str, broken: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: object) -> None:
        raise SystemError("<method 'flush' of 'cimpl.Producer' objects> returned NULL")

    monkeypatch.setitem(SCENARIOS, "seek", interrupted)
    target = at_address(bootstrap.partition(",")[0])

    with pytest.raises(KeyboardInterrupt):
        run([broken], ["seek"], target, told=lambda cell: None)


def test_an_interrupted_run_leaves_no_topics(bootstrap: str, tmp_path: Path) -> None:
    address = bootstrap.partition(",")[0]
    process = subprocess.Popen(
        [*HEEDING, sys.executable, "-m", "compat_tests.matrix", "--target", address,
         "--clients", "kafka-python", "--scenarios", "seek", "groups", "--out", str(tmp_path)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline().startswith("kafka-python")

    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)

    assert (process.returncode, err.strip()) == (
        130,
        "Error: interrupted; the topics of this run are deleted",
    )
    client = WireClient(address)
    topics = [entry.name for entry in client.call(METADATA, 5, topics=None).topics]
    client.close()
    assert [name for name in topics if name.startswith("kafka-python")] == []


@pytest.mark.parametrize("address", ["nowhere", "host:", "host:abc", ":9092", ""])
def test_an_address_that_is_none_is_told_before_a_broker_is_asked(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--target", address])

    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith(f"--target: '{address}' is not HOST:PORT\n")


def test_brokers_stand_side_by_side_where_they_differ(tmp_path: Path) -> None:
    fine = Cell(client="c", language="L", version="1", scenario="seek", state=State.OK, seconds=2)
    failed = replace(fine, state=State.FAILED, reason="read 1 of 2")
    one = Result(target="a", day="2026-01-01", scenarios={"seek": "Seeks"}, cells=[fine])
    other = replace(one, target="b", cells=[failed])
    save(other, tmp_path / "b.json")

    assert load(tmp_path / "b.json") == other
    assert markdown([one, other]).splitlines() == [
        "| Client | seek |",
        "|---|---|",
        "| c 1 | ok / **failed** <sup>1</sup> |",
        "",
        "1. failed: read 1 of 2",
    ]
    assert markdown([one, one]).splitlines()[2] == "| c 1 | ok |"
    assert "read 1 of 2" in page([one, other])


@pytest.mark.parametrize("result", kept(), ids=lambda result: result.target)
def test_kept_results_are_whole_and_no_cell_is_without_a_reason(result: Result) -> None:
    named = [(cell.client, cell.scenario) for cell in result.cells]

    assert sorted(named) == sorted((each.name, name) for each in clients() for name in SCENARIOS)
    assert [cell for cell in result.cells if cell.state != State.OK and not cell.reason] == []
    assert result.failed == []


def test_the_result_of_kbroker_is_shown_first() -> None:
    assert [result.target.split()[0] for result in kept()] == ["kbroker", "Apache", "Apache"]
