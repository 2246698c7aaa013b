"""Which cluster a completion asks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.shell_completion import ShellComplete

from kbroker.cli.arguments import completion
from kbroker.cli.command_line import cli


@pytest.mark.parametrize(
    ("environment", "asked"),
    [
        ({}, "in-the-file:2"),
        ({"KBROKER_BOOTSTRAP": "in-the-environment:1"}, "in-the-environment:1"),
    ],
)
def test_the_environment_wins_over_the_file_as_for_the_command(
    environment: dict[str, str], asked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses = []

    @contextmanager
    def cluster_links(bootstrap: str) -> Iterator[Any]:
        addresses.append(str(bootstrap))
        topics = [SimpleNamespace(name="orders", is_internal=False)]
        yield SimpleNamespace(describe=lambda _names: SimpleNamespace(topics=topics))

    monkeypatch.setattr(completion, "cluster_links", cluster_links)
    monkeypatch.delenv("KBROKER_BOOTSTRAP", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=in-the-file:2\n")
    shell = ShellComplete(cli, {}, "kbroker", "_KBROKER_COMPLETE")

    found = shell.get_completions(["topic", "describe", "--command-config", str(file)], "or")

    assert [item.value for item in found] == ["orders"]
    assert addresses == [asked]
