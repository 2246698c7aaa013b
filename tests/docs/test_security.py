"""The page about security: from nothing to clients in four languages that log in over TLS."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.clients import go_clients, node_clients
from compat_tests.running.prerequisites import require_program
from tests.docs.pages import blocks, shown_commands, text_of
from tests.docs.terminals import DEFAULT_ADDRESS, Terminals, environment, run, what_may_be_missing

PAGE = text_of("security")
CLIENTS = PAGE.partition("\n## Logins\n")[0]


@pytest.fixture(scope="module")
def terminals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminals]:
    """The page's broker and its directory, after all that its commands have done."""
    terminals = Terminals(tmp_path_factory.mktemp("security"))
    for shown in shown_commands(PAGE):
        name, _, value = shown.command.removeprefix("export ").partition("=")
        if shown.command.startswith("export "):
            terminals.settings[name] = value
        elif shown.command.startswith("kbroker cert "):
            said = run(["bash", "-c", shown.command], terminals.directory)
            assert settled(said) == settled(shown.output)
        else:
            terminals.play(shown)
    yield terminals
    terminals.close()


def settled(text: str) -> str:
    """The text without names of authorities, dates and widths."""
    text = re.sub(r"authority [0-9a-f]{8}", "authority ID", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", "MOMENT", text)
    return re.sub(r" +", " ", text)


def here(code: str, terminals: Terminals) -> str:
    return code.replace(DEFAULT_ADDRESS, terminals.address)


def test_clients_of_python_print_what_is_shown(terminals: Terminals) -> None:
    for code in blocks("python", CLIENTS):
        printed = run([sys.executable, "-c", here(code, terminals)], terminals.directory)
        assert [f"  # {line}\n" in code for line in printed.splitlines()] == [True]


def test_properties_are_those_of_java_and_kcat(terminals: Terminals) -> None:
    java, kcat = blocks("ini", CLIENTS)
    (terminals.directory / "ann.properties").write_text(java)
    asked = ["kbroker", "topic", "list", "--bootstrap", terminals.address]
    for file in ("ann.properties", "ann.conf"):
        (terminals.directory / file).write_text(java if file == "ann.properties" else kcat)
        listed = run([*asked, "--command-config", file], terminals.directory)
        assert "orders" in listed
    with what_may_be_missing():
        program = require_program("kcat", "install the Debian package kcat")
    listed = run([program, "-F", "ann.conf", "-b", terminals.address, "-L"], terminals.directory)
    assert '"orders"' in listed


def test_node_prints_what_is_shown(terminals: Terminals) -> None:
    (code,) = blocks("js", CLIENTS)
    with what_may_be_missing():
        node = require_program("node", "install Node.js 20 or newer")
        packages = node_clients.folder()
    said = subprocess.run(
        [node, "--input-type=module", "-e", with_files(here(code, terminals), terminals)],
        cwd=packages, capture_output=True, text=True, check=True,
        env=environment(KAFKAJS_NO_PARTITIONER_WARNING="1"),
    )  # fmt: skip
    assert [line for line in said.stdout.splitlines() if line[:1] != "{"] == ["orders"]


@pytest.mark.timeout(go_clients.BUILD_TIMEOUT_S)
def test_go_prints_what_is_shown(terminals: Terminals, tmp_path: Path) -> None:
    (code,) = blocks("go", CLIENTS)
    (tmp_path / "main.go").write_text(with_files(here(code, terminals), terminals))
    with what_may_be_missing():
        program = go_clients.built(tmp_path, tmp_path / "orders")
    assert run([str(program)], tmp_path) == "orders\n"


def with_files(code: str, terminals: Terminals) -> str:
    """The code with the whole path of the file that it reads."""
    return code.replace("secrets/ca.pem", str(terminals.directory / "secrets" / "ca.pem"))
