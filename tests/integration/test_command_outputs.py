"""Commands print what was recorded under tests/golden/cli; `tests/golden/command_outputs.py` says how
to record it anew. Read what changes as a user would.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.golden.command_ends import ENDS, TURNS, example
from tests.golden.command_outputs import HOME
from tests.golden.command_tree import commands, recorded, recorded_of

ROOT = Path(__file__).resolve().parents[2]
SESSIONS = sorted(path.name for path in HOME.glob("*.txt"))
COMMANDS = commands()
INTERRUPTED = 130

pytestmark = pytest.mark.timeout(420)  # 40 s of CPU, of which a busy machine makes minutes


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sessions as they are played now; a process of its own forks, this one has threads."""
    directory = tmp_path_factory.mktemp("played")
    subprocess.run(
        [sys.executable, "-m", "tests.golden.command_ends", str(directory)],
        cwd=ROOT,
        check=True,
        timeout=400,
    )
    return directory


@pytest.mark.parametrize("session", SESSIONS)
def test_commands_print_what_was_recorded(played: Path, session: str) -> None:
    assert (played / session).read_text().splitlines() == (HOME / session).read_text().splitlines()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_its_recorded_sessions(name: str) -> None:
    lines = recorded_of(name)

    assert any(each.is_fine and not each.is_help for each in lines), "a working run"
    assert any(each.is_help and each.printed and each.manner == "on 60 columns" for each in lines)
    assert any("no such option: " in said for each in lines for said in each.printed), (
        "wrong option"
    )
    if any("--bootstrap" in parameter.opts for parameter in COMMANDS[name].params):
        unreachable = [each for each in lines if "--bootstrap 127.0.0.1:1" in each.line]
        assert any("cannot connect" in said for each in unreachable for said in each.printed)


def test_only_a_terminal_is_given_colours_and_only_where_they_are_wanted() -> None:
    coloured = [each.line for each in recorded() if "ESC" in "".join(each.printed)]
    unwanted = [line for line in coloured if " columns" not in line or "NO_COLOR" in line]
    asked = [each for each in recorded() if each.line.startswith("$ NO_COLOR=1 ")]

    assert coloured
    assert unwanted == []
    assert any(" columns" in each.line and each.printed for each in asked)


def ends_of(played: Path, name: str, way: str) -> list[dict[str, Any]]:
    ends = [json.loads(line) for line in (played / ENDS).read_text().splitlines()]
    return [end for end in ends if end["name"] == name and end["way"].startswith(way)]


@pytest.mark.parametrize("name", COMMANDS)
def test_ctrl_c_ends_every_command_at_any_point_with_a_sentence_at_most(
    played: Path, name: str
) -> None:
    ends = ends_of(played, name, "interrupted")
    reached = [end for end in ends if end["code"] == INTERRUPTED]

    assert len(ends) == len(TURNS)
    assert reached, "it makes no access at which it could be interrupted"
    for end in ends:
        assert end["code"] in (0, INTERRUPTED), end  # it had ended before its turn came
        assert "Traceback" not in end["stderr"], end
        assert "KeyboardInterrupt" not in end["stderr"], end
    for end in reached:
        assert end["stderr"].count("\n") <= 1, end


@pytest.mark.parametrize("name", COMMANDS)
def test_a_reader_that_has_gone_is_no_news_to_any_command(played: Path, name: str) -> None:
    (end,) = ends_of(played, name, "nobody reads")

    shown = example(name)
    assert shown is not None
    # What prints nothing may find its change made already.
    prints = any(line.startswith("1|") for line in shown.printed)
    assert end["code"] == 0 or (not prints and end["stderr"].startswith("Error: ")), end
    assert "Traceback" not in end["stderr"], end
    assert "roken pipe" not in end["stderr"], end
    assert "Exception ignored" not in end["stderr"], end
