"""The clients: one folder each in `clients/`, with `client.toml` and the program that drives it."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "clients"
_CURRENT = 1_000


@dataclass(frozen=True)
class Client:
    """A client in one version.

    `version` is empty where the program itself says which version is installed. `lacks` has reasons by
    name of scenario, `limits` by name of what records or errors cannot have. `newest_fetch` is the newest
    version of Fetch that an old client sends. `compiles`: its library is built where it is installed. `program`:
    the class to run, compiled with the library in the version `compiled_for`. `needs` has hints by name of a program
    that must be on PATH.
    """

    name: str
    language: str
    kind: str
    folder: Path
    version: str
    lacks: dict[str, str]
    limits: dict[str, str]
    newest_fetch: int
    compiles: bool
    program: str
    compiled_for: str
    needs: dict[str, str]

    @property
    def title(self) -> str:
        """Name and version."""
        return f"{self.name} {self.version}".strip()


def clients() -> list[Client]:
    """All of them, in the order of their folders, old versions first."""
    return [each for path in sorted(FOLDER.glob("*/client.toml")) for each in _versions(path)]


def _versions(path: Path) -> list[Client]:
    described = tomllib.loads(path.read_text(encoding="utf-8"))
    return [
        Client(
            name=described["name"],
            language=described["language"],
            kind=described["kind"],
            folder=path.parent,
            version=version.get("number", ""),
            lacks={**described.get("lacks", {}), **version.get("lacks", {})},
            limits={**described.get("limits", {}), **version.get("limits", {})},
            newest_fetch=version.get("newest_fetch", _CURRENT),
            compiles=described.get("compiles", False),
            needs=described.get("needs", {}),
            program=version.get("program", ""),
            compiled_for=version.get("compiled_for", version.get("number", "")),
        )
        for version in described.get("version", [{}])
    ]
