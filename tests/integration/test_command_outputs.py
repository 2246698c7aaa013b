"""Commands print what was recorded under tests/golden/cli; `tests/golden/command_outputs.py` says how
to record it anew. Read what changes as a user would.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.golden.command_outputs import HOME

ROOT = Path(__file__).resolve().parents[2]
SESSIONS = sorted(path.name for path in HOME.glob("*.txt"))


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sessions as they are played now; a process of its own forks, this one has threads."""
    directory = tmp_path_factory.mktemp("played")
    subprocess.run(
        [sys.executable, "-m", "tests.golden.command_outputs", str(directory)],
        cwd=ROOT,
        check=True,
        timeout=100,
    )
    return directory


@pytest.mark.parametrize("session", SESSIONS)
def test_commands_print_what_was_recorded(played: Path, session: str) -> None:
    assert (played / session).read_text().splitlines() == (HOME / session).read_text().splitlines()
