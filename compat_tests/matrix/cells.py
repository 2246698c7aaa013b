"""What a run found: one cell for each client, version and scenario, and the run as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

KEPT = Path(__file__).parent.parent / "results"


class State(StrEnum):
    """How a cell ended; all but OK have a reason."""

    OK = "ok"
    FAILED = "failed"
    NOT_IN_CLIENT = "not in this client"
    NOT_SERVED = "not served by this broker"
    NOT_HERE = "not on this machine"
    NOT_RUN = "needs a broker of its own"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A scenario of a client. `reason` of an OK cell says what was left out of it."""

    client: str
    language: str
    version: str
    scenario: str
    state: State
    seconds: float = 0.0
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Result:
    """A run against one broker, on a day (ISO)."""

    target: str
    day: str
    scenarios: dict[str, str]
    cells: list[Cell]

    @property
    def failed(self) -> list[Cell]:
        """The cells that failed."""
        return [cell for cell in self.cells if cell.state == State.FAILED]


def save(result: Result, path: Path) -> None:
    """Write a result as JSON."""
    path.write_text(
        json.dumps(asdict(result), indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )


def load(path: Path) -> Result:
    """Read a result that `save` wrote."""
    told = json.loads(path.read_text(encoding="utf-8"))
    cells = [Cell(**{**each, "state": State(each["state"])}) for each in told.pop("cells")]
    return Result(**told, cells=cells)


def kept() -> list[Result]:
    """The results in `results/`, which the pages show: kbroker's first."""
    return [
        load(path) for path in sorted(KEPT.glob("*.json"), key=lambda p: (p.stem != "kbroker", p))
    ]
