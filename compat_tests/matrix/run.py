"""Runs scenarios of clients against a broker; what comes out is a cell for each."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from subprocess import SubprocessError

from compat_tests.matrix import new_groups
from compat_tests.matrix.cells import Cell, State
from compat_tests.matrix.client import Client
from compat_tests.matrix.program import ClientError, Program, ProgramError
from compat_tests.matrix.reference import Reference
from compat_tests.matrix.scenarios import SCENARIOS
from compat_tests.matrix.stage import LackError, Stage
from compat_tests.matrix.starting import start
from compat_tests.matrix.targets import Target
from compat_tests.running.prerequisites import NotAvailableError

UNSUPPORTED_VERSION = 35
_NOT_BUILT = "not available at build time"  # librdkafka, where a library was missing
_START_TIMEOUT_S = 300  # Spark fetches its connector first
_LONGEST = 200  # characters of a failure
Told = Callable[[Cell], None]


def run(clients: Iterable[Client], scenarios: list[str], target: Target, told: Told) -> list[Cell]:
    """Run every scenario of every client; `told` hears of each cell as it ends."""
    cells: list[Cell] = []
    for client in clients:
        for cell in _cells(client, scenarios, target):
            told(cell)
            cells.append(cell)
    return cells


def _cells(client: Client, scenarios: list[str], target: Target) -> Iterator[Cell]:
    """The cells of one client, by scenario."""
    if client.newest_fetch < target.oldest_fetch:
        reason = f"it sends Fetch {client.newest_fetch} at the most, the broker begins with {target.oldest_fetch}"
        yield from (
            _lack(client, name) or _cell(client, name, State.NOT_SERVED, reason)
            for name in scenarios
        )
        return
    try:
        program = start(client, target.bootstrap)
        client = replace(
            client,
            version=program.ask("hello", timeout_s=_START_TIMEOUT_S)["version"] or client.version,
        )
    except NotAvailableError as missing:
        yield from (
            _cell(client, name, State.NOT_HERE, _shortened(str(missing))) for name in scenarios
        )
        return
    except (AssertionError, ClientError, ProgramError, SubprocessError) as error:
        reason = _shortened(f"the program does not start: {error}")
        yield from (_cell(client, name, State.FAILED, reason) for name in scenarios)
        return
    reference = Reference(target.bootstrap)
    try:
        yield from _asked(client, program, scenarios, target, reference)
    finally:
        if target.restart is None:
            reference.clean_up()
        reference.close()


def _asked(
    client: Client, program: Program, scenarios: list[str], target: Target, reference: Reference
) -> Iterator[Cell]:
    """The cells of a client whose program runs; it is started again after it failed."""
    for name in scenarios:
        if lack := _lack(client, name):
            yield lack
        elif name in new_groups.SCENARIOS and target.group_version < 1:
            reason = f"its group.version is {target.group_version}"
            yield _cell(client, name, State.NOT_SERVED, reason)
        elif name == "restart" and target.restart is None:
            yield _cell(client, name, State.NOT_RUN, "the run did not start this broker")
        else:
            if not program.is_running:
                program = start(client, target.bootstrap)
            topic = _topic_name(client, name)
            cell = _played(Stage(client, program, target, reference, topic), name)
            if cell.state == State.FAILED:  # the next scenario gets a program that has no past
                program.close()
            yield cell
    if program.is_running:
        program.close()


def _played(stage: Stage, name: str) -> Cell:
    began = time.monotonic()
    state, reason = _outcome(stage, name)
    seconds = round(time.monotonic() - began, 1)
    return _cell(stage.client, name, state, reason, seconds)


def _outcome(stage: Stage, name: str) -> tuple[State, str]:
    try:
        SCENARIOS[name](stage)
    except LackError as lack:
        return State.NOT_IN_CLIENT, str(lack)
    except ClientError as error:
        state = State.NOT_SERVED if error.code == UNSUPPORTED_VERSION else State.FAILED
        if _NOT_BUILT in str(error):
            state = State.NOT_HERE
        return state, _shortened(str(error))
    except SystemError as error:
        # What confluent-kafka's flush makes of the Ctrl-C that ended it.
        raise KeyboardInterrupt from error
    except Exception as error:
        prefix = (
            "" if isinstance(error, AssertionError | ProgramError) else f"{type(error).__name__}: "
        )
        return State.FAILED, _shortened(f"{prefix}{error}")
    return State.OK, "; ".join(stage.notes)


def _lack(client: Client, scenario: str) -> Cell | None:
    """The cell of a scenario that the client has nothing for, whatever broker it is."""
    reason = client.lacks.get(scenario)
    if reason is None and scenario in new_groups.SCENARIOS:
        reason = client.lacks.get("new groups")
    return None if reason is None else _cell(client, scenario, State.NOT_IN_CLIENT, reason)


def _cell(client: Client, scenario: str, state: State, reason: str, seconds: float = 0.0) -> Cell:
    return Cell(
        client=client.name, language=client.language, version=client.version,
        scenario=scenario, state=state, seconds=seconds, reason=reason,
    )  # fmt: skip


def _topic_name(client: Client, scenario: str) -> str:
    words = f"{client.title} {scenario} {uuid.uuid4().hex[:6]}".lower()
    return "".join(c if c.isalnum() or c in ".-" else "-" for c in words)


def _shortened(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _LONGEST else flat[: _LONGEST - 1] + "…"
