"""The pages do what they say: what they show of one broker is run, and its output compared."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.clients import go_clients, java_clients, node_clients
from compat_tests.running.apache_kafka import NEWEST
from compat_tests.running.prerequisites import require_program
from tests.docs.pages import ROOT, Shown, blocks, code_words, shown_commands, text_of
from tests.docs.terminals import (
    DEFAULT_ADDRESS,
    environment,
    run,
    settled,
    starts_a_broker,
    what_may_be_missing,
)
from tests.golden import golden_logs

TEMPORARY_DIRECTORY = "/tmp/kbroker-wk3c8xyz"  # where the broker of the first minutes has its data
DIRECTORY_OF_APACHE = "/var/lib/kafka"
# Read one after the other, against one broker; a command that two of them show is given once.
OF_ONE_BROKER = "\n".join(text_of(page) for page in ("README", "start", "commands", "storage"))
COMMANDS = list(
    {
        shown.command: shown for shown in shown_commands(OF_ONE_BROKER + text_of("configuration"))
    }.values()
)
HTTP = "--override kbroker.http.listeners=127.0.0.1:0"  # as one on a fixed port has it
SNIPPETS = blocks("python", text_of("README") + text_of("start"))


@pytest.fixture(scope="module")
def first_lines() -> Iterator[list[str]]:
    """Yield the lines that `make run` prints, while its broker runs on a port of its own."""
    with subprocess.Popen(
        ["make", "--no-print-directory", "run", f"ARGS=--listen 127.0.0.1:0 {HTTP}"],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as make:
        assert make.stdout is not None
        lines: list[str] = []
        for line in iter(make.stdout.readline, ""):
            if lines or "listening on" in line:
                lines.append(line)
            if len(lines) == 3:
                break
        yield lines
        os.killpg(make.pid, signal.SIGTERM)


@pytest.fixture(scope="module")
def directory(first_lines: list[str]) -> str:
    return first_lines[1].removeprefix("data in ").partition(",")[0]


@pytest.fixture(scope="module")
def address(first_lines: list[str]) -> str:
    return first_lines[0].removeprefix("listening on ").strip()


def check_commands(commands: list[Shown], address: str, directory: str) -> None:
    for shown in commands:
        command = shown.command.replace(DEFAULT_ADDRESS, address)
        command = command.replace(TEMPORARY_DIRECTORY, directory)
        output = run(["bash", "-c", command], ROOT, KBROKER_BOOTSTRAP=address)
        assert (shown.command, settled(output)) == (shown.command, settled(shown.output))


def test_what_two_pages_show_is_the_same_on_both() -> None:
    assert set(COMMANDS) == set(shown_commands(OF_ONE_BROKER + text_of("configuration")))


def test_make_run_prints_what_is_shown(first_lines: list[str]) -> None:
    (shown,) = [shown for shown in COMMANDS if shown.command == "make run"]

    prepared, rest = shown.output.split("\n", 1)
    assert settled("".join(first_lines)) == settled(rest)
    # What only the first one in a checkout prints.
    assert f'@echo "{prepared.replace(".venv", "$(VENV)")}"' in (ROOT / "Makefile").read_text()


def test_commands_print_what_is_shown(address: str, directory: str) -> None:
    commands = [
        shown
        for shown in COMMANDS
        if not starts_a_broker(shown.command) and "kcat" not in shown.command
    ]

    assert len(commands) >= 12
    check_commands(commands, address, directory)


def test_kcat_prints_what_is_shown(address: str, directory: str) -> None:
    if shutil.which("kcat") is None:
        pytest.skip("no kcat on PATH (Debian package kcat)")

    commands = [shown for shown in COMMANDS if "kcat" in shown.command]
    check_commands(commands, address, directory)


def printed(code: str, mark: str = "#") -> list[str]:
    """List the outputs that comments after printing lines promise."""
    return re.findall(
        rf"^\s*(?:print|console\.log|System\.out\.println|fmt\.Println)\(.*\);? +{mark} (.*)$",
        code,
        re.MULTILINE,
    )


def snippet(word: str) -> str:
    (found,) = [code for code in SNIPPETS if word in code]
    return found


@pytest.mark.parametrize(
    "client", ["from kafka import KafkaConsumer", "from confluent_kafka", "from aiokafka"]
)
def test_a_client_snippet_prints_what_its_comment_says(
    client: str, address: str, tmp_path: Path
) -> None:
    code = snippet(client).replace(DEFAULT_ADDRESS, address)

    output = run([sys.executable, "-c", code], tmp_path)

    assert output.splitlines() == printed(code)


def other_snippet(language: str, address: str) -> str:
    (code,) = blocks(language, text_of("start"))
    assert DEFAULT_ADDRESS in code
    return code.replace(DEFAULT_ADDRESS, address)


@pytest.mark.java
def test_the_java_snippet_prints_what_its_comment_says(address: str, tmp_path: Path) -> None:
    code = other_snippet("java", address)
    (tmp_path / "Clicks.java").write_text(code)
    with what_may_be_missing():
        java = require_program("java", "install a Java 17 or 21 development kit")
        class_path = f"{java_clients.jars(NEWEST)}/*"

    said = subprocess.run(
        [java, "-XX:TieredStopAtLevel=1", "-cp", class_path, "Clicks.java"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert said.stdout.splitlines() == printed(code, "//")


def test_the_node_snippet_prints_what_its_comment_says(address: str) -> None:
    code = other_snippet("js", address)
    with what_may_be_missing():
        node = require_program("node", "install Node.js 20 or newer")
        packages = node_clients.folder()

    said = subprocess.run(
        [node, "--input-type=module", "-e", code],
        cwd=packages, capture_output=True, text=True, check=True,
        env=environment(KAFKAJS_NO_PARTITIONER_WARNING="1"),
    )  # fmt: skip

    assert [line for line in said.stdout.splitlines() if line[:1] != "{"] == printed(code, "//")


@pytest.mark.timeout(go_clients.BUILD_TIMEOUT_S)
def test_the_go_snippet_prints_what_its_comment_says(address: str, tmp_path: Path) -> None:
    code = other_snippet("go", address)
    (tmp_path / "main.go").write_text(code)
    with what_may_be_missing():
        program = go_clients.built(tmp_path, tmp_path / "thermostat")

    assert run([str(program)], tmp_path).splitlines() == printed(code, "//")


def test_the_pytest_fixtures_work(tmp_path: Path) -> None:
    of_testing = [code for code in blocks("python", text_of("testing")) if "def test_" in code]
    (tmp_path / "test_sending.py").write_text(snippet("kafka_topic"))
    for number, code in enumerate(of_testing):
        (tmp_path / f"test_{number}.py").write_text(code)
    (strict,) = blocks("ini", text_of("testing"))
    (tmp_path / "pytest.ini").write_text(strict)

    output = run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio", "."],
        tmp_path,
    )

    assert "3 passed" in output
    assert "warning" not in output


@pytest.mark.parametrize("brokers", ["with Broker(settings=", "with Broker(brokers=3)"])
def test_brokers_of_its_own_work(tmp_path: Path, brokers: str) -> None:
    (code,) = [code for code in blocks("python", text_of("testing")) if brokers in code]

    assert run([sys.executable, "-c", code], tmp_path).splitlines() == printed(code)


def test_the_shell_script_works(tmp_path: Path) -> None:
    (script,) = blocks("sh", text_of("testing"))

    output = run(["bash", "-euc", script], tmp_path)

    assert "orders: created\npayments: created\n" in output
    assert "is healthy" in output


def started(directory: str) -> list[str]:
    """The shown starts: those on this directory; without one, those on none that is named."""
    starts = [s.command for s in COMMANDS if "kbroker start" in s.command]
    return [c for c in starts if (directory in c if directory else DIRECTORY_OF_APACHE not in c)]


def started_and_stopped(command: list[str], directory: Path) -> tuple[str, str, int]:
    """The first line that a broker prints, what it says until it has stopped, its exit code."""
    with subprocess.Popen(
        command,
        cwd=directory,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as broker:
        assert broker.stdout is not None
        line = broker.stdout.readline()
        broker.terminate()
        _, errors = broker.communicate(timeout=20)
    return line, errors, broker.returncode


@pytest.mark.parametrize("command", started(""))
def test_a_shown_start_starts_a_broker_without_warnings(command: str, tmp_path: Path) -> None:
    properties, _ = blocks("properties", text_of("configuration"))
    (tmp_path / "server.properties").write_text(properties.replace(":9092", ":0"))

    shell = ["bash", "-c", re.sub(r"(?=kbroker start)", "exec ", command)]
    line, errors, code = started_and_stopped(shell, tmp_path)

    assert (line[:13], errors, code) == ("listening on ", "", 0)
    assert (tmp_path / "kbroker-data" / "meta.properties").exists()


def test_a_start_over_data_of_apache_kafka_asks_as_shown_and_adopts_when_told(
    tmp_path: Path,
) -> None:
    (asking,) = started(DIRECTORY_OF_APACHE)
    storage = text_of("storage")
    (agreeing,) = [word for word in code_words(storage) if word.startswith(f"{asking} --adopt")]
    (shown,) = [block for block in blocks("text", storage) if block.startswith("kbroker would")]
    data = golden_logs.unpack("3.9.2-clean", tmp_path)
    words = [*asking.replace(DIRECTORY_OF_APACHE, str(data)).split(), "--listen", "127.0.0.1:0"]

    asked = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False)
    line, told, _ = started_and_stopped([*words, agreeing.split()[-1]], tmp_path)

    sentence = asked.stderr.replace(str(data), DIRECTORY_OF_APACHE).removeprefix("Error: ")
    assert (asked.returncode, sentence.splitlines()) == (2, shown.splitlines())
    assert (line[:13], told[:23]) == ("listening on ", "kbroker adopted 25 topi")
