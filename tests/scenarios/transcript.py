"""Transcripts: stories that are told in commands, each followed by what came of it.

    transcript = lines; "#" begins a comment, blank lines part paragraphs
    > command  = one thing that happens; the lines below it say what it led to

With KBROKER_REWRITE=1 in the environment the results are written anew; a person reads the diff.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.fakes.running.virtual_loop import VirtualLoop

Play = Callable[[str], Coroutine[Any, Any, list[str]]]
"""Carries out one command, and returns the lines that say what came of it."""


def transcripts(test_file: str) -> dict[str, Any]:
    """Arguments of pytest.mark.parametrize: the transcripts beside a test."""
    paths = sorted(Path(test_file).parent.glob("*.txt"))
    return {"argnames": "path", "argvalues": paths, "ids": [path.stem for path in paths]}


def check(path: Path, playing: Callable[[str], Coroutine[Any, Any, str]]) -> None:
    """Play a transcript, in virtual time, and compare."""
    written = path.read_text()
    with closing(VirtualLoop()) as loop:
        now = loop.run_until_complete(playing(written))
    if os.environ.get("KBROKER_REWRITE"):
        path.write_text(now)
    assert now == written


async def played(text: str, play: Play) -> str:
    """The transcript as it goes now: comments and commands kept, results new."""
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(("#", ">")) or not line.strip():
            lines.append(line)
        if line.startswith("> "):
            lines += await play(line[2:])
    return "\n".join(lines) + "\n"
