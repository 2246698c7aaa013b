"""The README does what it says: its commands and snippets are run, its tables and names compared
with the code.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

from compat_tests.apache_kafka import free_port, wait_for_port
from compat_tests.prerequisites import NotAvailableError
from compat_tests.spark.quick_java import quick_java
from compat_tests.zookeeper_servers import java_command
from kbroker.apis import registry
from kbroker.cli.__main__ import cli
from kbroker.cli.pipeline.archive import ArchiveCommand
from kbroker.cli.pipeline.archive_upkeep import UPKEEP
from kbroker.cli.recovery_display import describe
from kbroker.config.kafka_config import config_key
from kbroker.config.kbroker_config import KbrokerConfig
from kbroker.config.topic_config import topic_config_key
from kbroker.log.recovery.load_progress import DirectoryProgress
from tests.compatibility_table import README, table, table_in
from tests.golden import golden_logs

ROOT = README.parent
TEXT = README.read_text(encoding="utf-8")
DEFAULT_ADDRESS = "127.0.0.1:9092"
TEMPORARY_DIRECTORY = "/tmp/kbroker-wk3c8xyz"  # where the broker of the first minutes has its data
DIRECTORY_OF_APACHE = "/var/lib/kafka"
OPTION = r"(?<![\w-])--[a-z][a-z-]+"
CLUSTERS = TEXT.partition("\n## Clusters\n")[2].partition("\n## ")[0]
PIPELINE = TEXT.partition("\n## Data pipeline\n")[2].partition("\n## ")[0]
ALONE = TEXT.replace(CLUSTERS, "").replace(PIPELINE, "")
NOT_YET = TEXT.partition("\n## What is not there yet\n")[2].partition("\n## ")[0]
CODE_WORDS = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", TEXT, flags=re.DOTALL))
HUNTS = [w for w in CODE_WORDS if re.match(r"python -m (tests|compat_tests)\..* --", w)]
# What looks like a setting and is none of the broker's: files, a client's own setting, an attribute.
NO_SETTINGS = {
    "server.properties", "meta.properties", "partition.metadata", "transactional.id", "zoo.cfg",
    "isolation.level", "broker.bootstrap",
}  # fmt: skip
OF_OTHERS = {
    *("--bootstrap-server", "--kind", "--alter", "--entity-type", "--entity-name"),
    *("--add-config", "--delete-config"),
}


@dataclass(frozen=True)
class Shown:
    """A command of a console block and the lines below it."""

    command: str
    output: str


def blocks(language: str, text: str = TEXT) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def shown_commands(text: str = ALONE) -> list[Shown]:
    """Those of one broker, or of another part of the text."""
    shown = blocks("console", text)
    pieces = [piece for block in shown for piece in re.split(r"^\$ ", block, flags=re.M)]
    return [Shown(*piece.split("\n", 1)) for piece in pieces if piece]


def starts_a_broker(command: str) -> bool:
    return command == "make run" or "kbroker start" in command


def environment(**more: str) -> dict[str, str]:
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("KAFKA_", "KBROKER_"))}
    return {**plain, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", **more}


def settled(text: str) -> str:
    """The text without what is different each time: times, ports, names of temporary directories."""
    text = re.sub(r"\b1[78]\d{11}\b", "TIMESTAMP", text)
    text = re.sub(r"\bin [\d.]+ s, [\d,]+ MB/s", "in N s", text)
    text = re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", text)
    return re.sub(r"\S+/kbroker-\w+,", "DIRECTORY,", text).rstrip("\n")


def run(command: list[str], directory: Path, timeout_s: float = 30, **more: str) -> str:
    """Standard output and error together; the command must succeed."""
    done = subprocess.run(
        command,
        cwd=directory,
        env=environment(**more),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}"
    return done.stdout


@pytest.fixture(scope="module")
def first_lines() -> Iterator[list[str]]:
    """What `make run` prints, while its broker runs on a port of its own."""
    with subprocess.Popen(
        ["make", "--no-print-directory", "run", "ARGS=--listen 127.0.0.1:0"],
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
            if len(lines) == 2:
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


def test_make_run_prints_what_is_shown(first_lines: list[str]) -> None:
    (shown,) = [shown for shown in shown_commands() if shown.command == "make run"]

    assert settled("".join(first_lines)) == settled(shown.output)


def test_commands_print_what_is_shown(address: str, directory: str) -> None:
    commands = [
        shown
        for shown in shown_commands()
        if not starts_a_broker(shown.command) and "kcat" not in shown.command
    ]

    assert len(commands) >= 12
    check_commands(commands, address, directory)


def test_kcat_prints_what_is_shown(address: str, directory: str) -> None:
    if shutil.which("kcat") is None:
        pytest.skip("no kcat on PATH (Debian package kcat)")

    commands = [shown for shown in shown_commands() if "kcat" in shown.command]
    check_commands(commands, address, directory)


def snippet(word: str) -> str:
    (found,) = [block for block in blocks("python") if word in block]
    return found


@pytest.mark.parametrize("client", ["from kafka import KafkaConsumer", "from confluent_kafka"])
def test_a_client_snippet_prints_what_its_comment_says(
    client: str, address: str, tmp_path: Path
) -> None:
    code = snippet(client).replace(DEFAULT_ADDRESS, address)

    output = run([sys.executable, "-c", code], tmp_path)

    assert output.splitlines() == re.findall(r"^ *print\(.*\)  # (.*)$", code, re.MULTILINE)


def test_the_pytest_fixtures_work(tmp_path: Path) -> None:
    (tmp_path / "test_orders.py").write_text(snippet("kafka_topic"))

    output = run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."], tmp_path)

    assert "1 passed" in output


def test_the_shell_script_works(tmp_path: Path) -> None:
    (script,) = blocks("sh")

    output = run(["bash", "-euc", script + "wait $broker\n"], tmp_path)

    assert "orders: created\npayments: created\n" in output
    assert "is healthy" in output


def started(directory: str) -> list[str]:
    """The shown starts: those on this directory; without one, those on none that is named."""
    starts = [s.command for s in shown_commands() if "kbroker start" in s.command]
    return [c for c in starts if (directory in c if directory else DIRECTORY_OF_APACHE not in c)]


@pytest.mark.parametrize("command", started(""))
def test_a_shown_start_starts_a_broker_without_warnings(command: str, tmp_path: Path) -> None:
    (properties,) = blocks("properties")
    (tmp_path / "server.properties").write_text(properties.replace(":9092", ":0"))

    with subprocess.Popen(
        ["bash", "-c", re.sub(r"(?=kbroker start)", "exec ", command)],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as broker:
        assert broker.stdout is not None
        line = broker.stdout.readline()
        broker.terminate()
        _, errors = broker.communicate(timeout=20)

    assert (line[:13], errors, broker.returncode) == ("listening on ", "", 0)
    assert (tmp_path / "kbroker-data" / "meta.properties").exists()


def test_a_start_over_data_of_apache_kafka_asks_as_shown_and_adopts_when_told(
    tmp_path: Path,
) -> None:
    (asking,) = started(DIRECTORY_OF_APACHE)
    (agreeing,) = [word for word in CODE_WORDS if word.startswith(f"{asking} --adopt")]
    (shown,) = [block for block in blocks("text") if block.startswith("kbroker would adopt")]
    data = golden_logs.unpack("3.9.2-clean", tmp_path)
    words = [*asking.replace(DIRECTORY_OF_APACHE, str(data)).split(), "--listen", "127.0.0.1:0"]

    asked = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False)
    with subprocess.Popen(
        [*words, agreeing.split()[-1]],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as broker:
        assert broker.stdout is not None
        line = broker.stdout.readline()
        broker.terminate()
        _, told = broker.communicate(timeout=20)

    sentence = asked.stderr.replace(str(data), DIRECTORY_OF_APACHE).removeprefix("Error: ")
    assert (asked.returncode, sentence.split()) == (2, shown.split())
    assert (line[:13], told[:23]) == ("listening on ", "kbroker adopted 25 topi")


class Terminals:
    """What the parts about clusters and the pipeline show, carried out in its order: what serves runs on until
    something else wants its place, or the text says that it has stopped.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.settings: dict[str, str] = {}  # of the environment, for commands that end
        self._ports = {port: free_port() for port in (2181, 9092, 9093, 9094)}
        self._running: list[tuple[str, subprocess.Popen[str]]] = []

    @property
    def address(self) -> str:
        """Of the broker that is shown with the default address."""
        return f"127.0.0.1:{self._ports[9092]}"

    def play(self, shown: Shown) -> None:
        """Carry one command out, and compare what it prints."""
        command = re.sub(r"(?<=:|=)(2181|909[234])\b", self._port, shown.command)
        if starts_a_broker(command):
            self._start(command, shown)
        elif command.startswith("java "):
            process = self._serve("java", command)
            wait_for_port(self._ports[2181], process)  # a broker that comes earlier says it waits
        else:
            if "kbroker cluster export" in command or "kbroker cluster import" in command:
                self.stop("kbroker")
            elif "offline" in shown.output:
                self.stop("kbroker", 1)
            said = self._said(command)
            assert (shown.command, unvarying(said)) == (shown.command, unvarying(shown.output))

    def stop(self, kind: str, most: int = 3) -> None:
        """Ctrl-C in those of a kind that were started last."""
        for _, process in [entry for entry in self._running if entry[0] == kind][-most:]:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=30)
        self._running = [entry for entry in self._running if entry[1].poll() is None]

    def close(self) -> None:
        for _, process in self._running:
            process.kill()
            process.communicate()

    def _start(self, command: str, shown: Shown) -> None:
        if "--listen" not in command:
            self.stop("kbroker")
            command += f" --listen {self.address}"
        process = self._serve("kbroker", command)
        assert process.stdout is not None
        said = "".join(process.stdout.readline() for _ in shown.output.splitlines())
        assert settled(said) == settled(shown.output)

    def _serve(self, kind: str, command: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=self.directory,
            env=environment(),
            stdout=subprocess.PIPE if kind == "kbroker" else subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._running.append((kind, process))
        return process

    def _said(self, command: str) -> str:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.directory,
            env=environment(KBROKER_BOOTSTRAP=self.address, **self.settings),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=200,
            check=False,
        )
        return done.stdout

    def _port(self, found: re.Match[str]) -> str:
        return str(self._ports[int(found[0])])


def unvarying(text: str) -> str:
    """Settled, and without ids and choices of chance; a port has four or five digits."""
    text = re.sub(r"\bcluster [\w-]{22}\b", "cluster ID", settled(text))
    text = re.sub(r"no leader: .*", "no leader: PARTITIONS", text)
    text = re.sub(r"\d+ changed", "N changed", text)
    text = re.sub(r"127\.0\.0\.1:\d+|ADDRESS", "ADDRESS", text)
    text = re.sub(r" {2,}", "  ", text)
    return re.sub(r" +$", "", without_measures(text), flags=re.MULTILINE)


def without_measures(text: str) -> str:
    """Without what a job of the pipeline measures: sizes, rates, times, and its progress."""
    text = re.sub(r"^archive: .*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"\bin \d+ batch.*", "in N batches, N rows/s", text)
    text = re.sub(r"\b[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}\b", "ID", text)
    text = re.sub(r"\b\d{4}-\d\d-\d\dT\d\d\b", "HOUR", text)
    text = re.sub(r"\b(\d+\.\d+|\d{4,})\b", "N", text)
    return re.sub(r"\b\d+(?= files?\b|  N  HOUR)", "N", text)  # more when an hour ends meanwhile


@pytest.fixture
def terminals(tmp_path: Path) -> Iterator[Terminals]:
    made = Terminals(tmp_path)
    yield made
    made.close()


def test_a_cluster_in_one_process_prints_what_is_shown(terminals: Terminals) -> None:
    commands = shown_commands(CLUSTERS.partition("\n### Brokers over a ZooKeeper\n")[0])

    assert len(commands) == 3
    for shown in commands:
        terminals.play(shown)


@pytest.mark.java
@pytest.mark.timeout(180)
def test_clusters_over_a_zookeeper_print_what_is_shown(terminals: Terminals) -> None:
    try:
        java_command("", ())
    except NotAvailableError as error:
        pytest.skip(str(error))
    commands = shown_commands(CLUSTERS)

    assert sum("--zookeeper" in shown.command for shown in commands) == 7
    for shown in commands:
        terminals.play(shown)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_spark_and_the_pipeline_do_what_is_shown(terminals: Terminals) -> None:
    if shutil.which("java") is None:
        pytest.skip("no java on PATH (Spark needs Java 17 or 21)")
    terminals.settings = {"PYSPARK_PYTHON": sys.executable, **quick_java()}
    (toml,) = blocks("toml", PIPELINE)
    (terminals.directory / "pipeline.toml").write_text(
        toml.replace(DEFAULT_ADDRESS, terminals.address)
    )
    code = snippet("spark.jars.packages") + snippet("kbroker-log")  # one session for both
    printed = re.findall(r"^print\(.*\)  # (.*)$", code, re.MULTILINE)

    for shown in shown_commands(PIPELINE):
        terminals.play(shown)
    for job in ("archive --dry-run", "audit --dry-run", "lag"):
        command = ["kbroker", "pipeline", *job.split(), "--config", "pipeline.toml"]
        assert "sales" in run(command, terminals.directory)
    output = run(
        [sys.executable, "-c", code.replace(DEFAULT_ADDRESS, terminals.address)],
        terminals.directory, 280, **terminals.settings,
    )  # fmt: skip

    rows = sorted(re.findall(r"^\| *(k\d)\| *(v\d)\| *\d+\|$", output, re.MULTILINE))
    assert rows == [("k1", "v1"), ("k2", "v2")]
    assert re.findall(r"^\d+$", output, re.MULTILINE) == printed


def sentences() -> str:
    """Every text of the code, with dots for what is put in, a line each."""
    found = []
    for path in (ROOT / "kbroker").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                found.append("".join(
                    str(part.value) if isinstance(part, ast.Constant) else "..."
                    for part in node.values
                ))  # fmt: skip
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return "\n".join(found)


def test_every_sentence_of_the_troubleshooting_is_one_of_the_code() -> None:
    part = TEXT.partition("\n## Troubleshooting\n")[2].partition("\n## ")[0]
    bold = re.findall(r"\*\*(`.*?`.*?)\*\*", part)
    named = [word for text in bold for word in re.findall(r"`(.*?)`", text)]
    known = re.sub(r"%[\w.]+", "...", sentences())

    assert len(named) > 20
    for word in named:
        own = word.removesuffix(": Address already in use")  # what the system says
        pieces = re.split(r"\.\.\.|\d[\d.:,]*", own)
        wanted = ".*".join(re.escape(piece) for piece in pieces if piece.strip(" ,"))
        assert re.search(wanted, known), word


def test_the_line_about_recovery_is_the_one_that_is_printed() -> None:
    progress = DirectoryProgress("/data", 100, 1024 << 20, 12, 120 << 20)

    shown = [block for block in blocks("text") if block.startswith("recovering")]

    assert shown == [f"{describe(progress, 0.4)}\n"]


def test_every_named_hunt_is_there() -> None:
    assert len(HUNTS) >= 7
    for command in HUNTS:
        module = command.split()[2].replace(".", "/")
        source = (ROOT / f"{module}.py").read_text(encoding="utf-8")
        assert [o for o in re.findall(OPTION, command) if f'"{o}"' not in source] == []


def test_all_settings_of_our_own_are_named_with_their_values() -> None:
    rows = dict(re.findall(r"^\| `(kbroker\.[a-z.]+)` \| (.*?) \|", TEXT, re.MULTILINE))
    keys = {key.name: key for key in KbrokerConfig.keys}

    assert rows.keys() == keys.keys()
    for name, key in keys.items():
        assert [value for value in key.one_of if f"`{value}`" not in rows[name]] == []


def test_the_compatibility_table_is_that_of_the_registry() -> None:
    assert table_in(TEXT) == table(), "run `python -m tests.compatibility_table`"


def test_apis_named_as_missing_are_missing() -> None:
    served = {api.name for api in registry.registered().values()}
    named = set(re.findall(r"\b(?:[A-Z][a-z]+){2,}\b", NOT_YET))

    assert {"AlterPartitionReassignments", "AlterReplicaLogDirs"} <= named
    assert not named & served


def found_command(words: list[str]) -> click.Command | None:
    command: click.Command | None = cli
    for word in words:
        if isinstance(command, ArchiveCommand):
            return UPKEEP.get(word)
        if not isinstance(command, click.Group):
            return command
        command = command.get_command(click.Context(command), word)
    return command


@pytest.mark.parametrize(
    "words", sorted({word for word in CODE_WORDS if re.match(r"kbroker [a-z]", word)})
)
def test_a_named_command_exists(words: str) -> None:
    names = [word for word in words.split()[1:] if re.fullmatch(r"[a-z]+", word)]

    assert found_command(names) is not None


def test_commands_named_as_missing_are_missing() -> None:
    sentence = NOT_YET.partition("* The commands ")[2].partition("; a web console")[0]
    named = re.findall(r"`([a-z ]+)`", sentence)

    assert len(named) >= 5
    assert [name for name in named if found_command(name.split()) is not None] == []


def commands_below(command: click.Command) -> Iterator[click.Command]:
    yield command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from commands_below(below)
    if isinstance(command, ArchiveCommand):
        yield from UPKEEP.values()


def test_every_named_option_exists_unless_it_is_named_as_missing() -> None:
    commands = list(commands_below(cli))
    known = {option for command in commands for p in command.params for option in p.opts}
    of_the_test_suite = {"--target", *OF_OTHERS, *re.findall(OPTION, " ".join(HUNTS))}
    missing = set(re.findall(OPTION, NOT_YET))

    assert missing & known == set()
    assert set(re.findall(OPTION, TEXT)) - of_the_test_suite - missing - known == set()


def named_settings() -> set[str]:
    words = {word.partition("=")[0] for word in CODE_WORDS}
    named = {word for word in words if re.fullmatch(r"[a-z]+(\.[a-z]+)+", word)}
    named |= set(re.findall(r"--(?:override|config) ([a-z.]+)=", TEXT))
    named |= set(re.findall(r"^([a-z.]+)=", "".join(blocks("properties")), re.MULTILINE))
    return named - NO_SETTINGS


@pytest.mark.parametrize("name", sorted(named_settings()))
def test_a_named_setting_is_known(name: str) -> None:
    assert config_key(name) is not None or topic_config_key(name) is not None


def test_every_named_make_target_is_there() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    named = set(re.findall(r"(?:`|^\$ |^)make ([a-z-]+)", TEXT, re.MULTILINE))

    assert {"run", "test"} <= named
    assert named - targets == set()


def test_every_path_of_the_structure_is_there() -> None:
    structure = TEXT.partition("\n## Structure\n")[2].partition("\n## ")[0]
    paths = re.findall(r"^([a-z_/]+/|kbroker/[a-z_]+\.py)(?=[ ,])", structure, re.MULTILINE)

    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_structure_names_every_package() -> None:
    structure = TEXT.partition("\n## Structure\n")[2].partition("\n## ")[0]
    lines = dict(re.findall(r"^(kbroker/[a-z_/]*) +(.*)$", structure, re.MULTILINE))
    found = [path.parent.relative_to(ROOT) for path in (ROOT / "kbroker").rglob("__init__.py")]

    def is_named(package: Path) -> bool:  # on a line of its own, or on that of the folder it is in
        return f"{package}/" in lines or f"{package.name}/" in lines.get(f"{package.parent}/", "")

    assert [str(package) for package in found if not is_named(package)] == ["kbroker"]
