"""Plays a working run of every command as it ends before its time, and writes what came of it
beside the sessions.

    .venv/bin/python -m tests.golden.command_ends DIRECTORY

Each command runs as the first session does in which it works, after all sessions have been played
and, of those that need what sessions delete in the end, after that has been made again:

    interrupted    Ctrl-C as the main thread makes its first, second or third access to the network,
                   to a file or to standard output, imports aside
    nobody reads   standard output is a pipe whose reader has gone
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

from tests.golden import command_outputs
from tests.golden.command_outputs import SHOWN_OTHER, SHOWN_SECURED, Command, Player, started
from tests.golden.command_tree import Recorded, commands, recorded_of

ENDS = "ends.jsonl"
TURNS = (1, 2, 3)
_ACCESSES = ("open", "os.listdir", "os.scandir", "socket.connect", "socket.getaddrinfo")
_LOADED = (".py", ".pyc", ".so")
_WAIT_S = 15.0
_MAKE_TOKEN = f"$ kbroker token create --bootstrap {SHOWN_SECURED} --command-config ann.properties"
# What examples look at; others delete it.
_THERE = (
    "topic create orders payments --partitions 1 --if-not-exists",
    "group reset readers --topic letters --to earliest --yes",
    "user delete ann",
    "user add bo --password-file user.password",
)
_TAKING = {"group delete", "topic delete", "user add", "user delete"}  # some of it away
# What a command refuses to run without, as lines of a session.
_NEEDED = {
    "acl revoke": f"$ KBROKER_BOOTSTRAP={SHOWN_OTHER}"
    " kbroker acl allow bo read --topic orders- --prefixed",
    "token expire": _MAKE_TOKEN,
    "token renew": _MAKE_TOKEN,
}


class Interrupter:
    """In a fork: raises KeyboardInterrupt at one access of the main thread."""

    def __init__(self, turn: int) -> None:
        self._left = turn

    def begin(self) -> None:
        """Watch from now on."""
        sys.addaudithook(self._hear)
        sys.stdout.write = self._writing(sys.stdout.write)  # type: ignore[method-assign]

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in _ACCESSES and not _is_import(arguments):
            self._pass()

    def _writing(self, write: Any) -> Any:
        def call(text: str) -> Any:
            self._pass()
            return write(text)

        return call

    def _pass(self) -> None:
        if threading.current_thread() is threading.main_thread():
            self._left -= 1
            if self._left == 0:
                raise KeyboardInterrupt


def _is_import(arguments: tuple[Any, ...]) -> bool:
    path = str(arguments[0]) if arguments else ""
    return path.endswith(_LOADED) or any(path.startswith(place) for place in sys.path if place)


def example(name: str) -> Recorded | None:
    """Its first recorded run that works, best one that prints; None where there is none."""
    runs = [each for each in recorded_of(name) if each.is_fine and not each.is_help]
    return next((each for each in runs if each.printed), runs[0] if runs else None)


def ended(name: str, way: str, command: Command, address: str, turn: int = 0) -> dict[str, Any]:
    """Run it once, and return what came of it."""
    command_outputs.before_running = Interrupter(turn).begin if turn else _nothing
    running = started(command, address)
    command_outputs.before_running = _nothing
    if name == "start" and not turn:
        running.read(timeout_s=1.0)
        running.interrupt()
    running.read(timeout_s=_WAIT_S)
    code = running.end()
    said = b"".join(list(running.outputs.values())[-1:]).decode(errors="replace")
    return {"name": name, "way": way, "code": code, "stderr": said}


def _nothing() -> None:
    """The command runs as it is."""


def all_ends(player: Player) -> list[dict[str, Any]]:
    """Of every command in every way."""
    found = []
    is_all_there = False
    for name in commands():
        run = example(name)
        if run is None:
            continue
        if name in _NEEDED:
            player.play(_NEEDED[name])
        shown, address = player.parsed(run.line), player.address
        arguments = shown.arguments
        stdin, environment = shown.stdin, shown.environment
        plain = Command(arguments=arguments, stdin=stdin, environment=environment)
        found += [ended(name, f"interrupted {turn}", plain, address, turn) for turn in TURNS]
        quiet = Command(
            arguments=arguments, stdin=stdin, environment=environment, manner="nobody reads"
        )
        if name in _TAKING or not is_all_there:
            for line in _THERE:
                ended(name, "there", Command(arguments=line.split()), address)
        found.append(ended(name, "nobody reads", quiet, address))
        is_all_there = name not in _TAKING
    return found


def main(target: str) -> None:
    """Write the sessions to a directory as they are played now, and a line of JSON for each end."""
    directory = Path(target).resolve()
    with command_outputs.playing() as player:
        command_outputs.play_all(player, directory)
        ends = all_ends(player)
    (directory / ENDS).write_text("".join(f"{json.dumps(end)}\n" for end in ends))


if __name__ == "__main__":
    main(*sys.argv[1:])
