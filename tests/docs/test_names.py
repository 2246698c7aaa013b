"""What the pages name is there: settings, options, commands, targets, hunts, packages."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from kbroker.apis import registry
from kbroker.cli.kafka_tools.command import TOOLS, tool_of
from kbroker.cli.shown.recovery_display import describe
from kbroker.client.connection_settings import check_names, connection_settings, without_effect
from kbroker.config.foreign_settings import PLUGIN_SETTINGS, PROVIDERS
from kbroker.config.kafka_config import DYNAMIC_ONLY, config_key, overriding_key
from kbroker.config.topic_config import topic_config_key
from kbroker.log.recovery.load_progress import DirectoryProgress
from tests.docs.generated import all_commands
from tests.docs.pages import ROOT, blocks, code_words, section, text_of, whole_text

OPTION = r"(?<![\w-])--[a-z][a-z-]+"
TEXT = whole_text()
CODE_WORDS = code_words(TEXT)
NOT_YET = section(text_of("compatibility"), "## What is not there yet")
PACKAGES = section(text_of("architecture"), "## Packages")
COMMANDS: dict[str, click.Command] = dict(all_commands())
HUNTS = [w for w in CODE_WORDS if re.match(r"python -m (tests|compat_tests)\..* --", w)]
# What looks like a setting and is none of the broker's: files, an attribute.
NO_SETTINGS = {
    "server.properties", "meta.properties", "partition.metadata", "transactional.id", "zoo.cfg",
    "broker.bootstrap", "transaction.version", "group.version", "prometheus.yml", "admin.properties", "ann.conf",
    "ann.pem", "broker.pem", "ca.key", "ca.pem", "kafka.authorizer.logger",
}  # fmt: skip
OF_OTHERS = {
    *("--bootstrap-server", "--kind", "--alter", "--entity-type", "--entity-name"),
    *("--add-config", "--delete-config", "--execute", "--throttle", "--verify", "--describe"),
    *("--reassignment-json-file", "--no-deps", "--feature", "--hypothesis-profile"),
    *("--host", "--port", "--memory", "--work-dir"),  # of Spark's programs
    "--cacert",  # of curl
    *("--add", "--allow-principal", "--operation", "--resource-pattern-type"),  # of kafka-acls
}


def test_the_line_about_recovery_is_the_one_that_is_printed() -> None:
    progress = DirectoryProgress("/data", 100, 1024 << 20, 12, 120 << 20)

    shown = [block for block in blocks("text", TEXT) if block.startswith("recovering")]

    assert shown == [f"{describe(progress, 0.4)}\n"]


SHARED_MAINS = {
    "cluster_simulation.main(": "cluster_simulation.py",
    "SeededHistories(": "seeded_histories.py",
}


def test_every_named_hunt_is_there() -> None:
    assert len(HUNTS) >= 7
    for command in HUNTS:
        module = ROOT / command.split()[2].replace(".", "/")
        file = module / "__main__.py" if module.is_dir() else module.with_suffix(".py")
        source = file.read_text(encoding="utf-8")
        for called, home in SHARED_MAINS.items():
            if called in source:
                source += (ROOT / "tests/faults" / home).read_text(encoding="utf-8")
        assert [o for o in re.findall(OPTION, command) if f'"{o}"' not in source] == []


def test_apis_named_as_missing_are_missing() -> None:
    served = {api.name for api in registry.registered().values()}
    named = set(re.findall(r"\b(?:[A-Z][a-z]+){2,}\b", NOT_YET))

    assert not named & served


@pytest.mark.parametrize(
    "words", sorted({word for word in CODE_WORDS if re.match(r"kbroker [a-z]", word)})
)
def test_a_named_command_exists(words: str) -> None:
    """The longest row of plain words is a command, or a command and its first argument."""
    names = re.match(r"kbroker ([a-z][a-z-]*(?: [a-z][a-z-]*)*)", words)
    assert names is not None
    spelt = names[1].split()
    found = [
        " ".join(spelt[:n]) for n in range(1, len(spelt) + 1) if " ".join(spelt[:n]) in COMMANDS
    ]

    assert found
    assert not isinstance(COMMANDS[found[-1]], click.Group) or found[-1] == names[1]


def test_every_named_option_exists_unless_it_is_named_as_missing() -> None:
    known = {option for command in COMMANDS.values() for p in command.params for option in p.opts}
    of_tools = (f"--{option}" for name in TOOLS for option in tool_of(name).options)
    known |= {"--help", *re.findall(OPTION, " ".join(of_tools))}
    of_the_test_suite = {
        "--target",
        "--gigabytes",
        "--quick",
        *OF_OTHERS,
        *re.findall(OPTION, " ".join(HUNTS)),
    }
    missing = set(re.findall(OPTION, NOT_YET))

    assert missing & known == set()
    assert set(re.findall(OPTION, TEXT)) - of_the_test_suite - missing - known == set()


def test_the_shown_properties_are_those_of_a_client() -> None:
    (shown,) = blocks("ini", text_of("commands"))
    given = dict(line.split("=", 1) for line in shown.splitlines())

    check_names(given, "the page")
    assert without_effect(given) == []
    assert connection_settings(given).protocol == "SASL_SSL"


_FILES = (".py", ".mjs", ".go")  # those of programs


def named_settings() -> set[str]:
    words = {word.partition("=")[0] for word in CODE_WORDS if not word.endswith(_FILES)}
    named = {word for word in words if re.fullmatch(r"[a-z]+(\.[a-z]+)+", word)}
    named |= set(re.findall(r"--(?:override|config) ([a-z.]+)=", TEXT))
    named |= set(re.findall(r"^([a-z.]+)=", "".join(blocks("properties", TEXT)), re.MULTILINE))
    return named - NO_SETTINGS


def test_every_named_setting_is_known() -> None:
    names = named_settings() - set(DYNAMIC_ONLY) - PLUGIN_SETTINGS - {"authorizer.zookeeper.url"}
    of_providers = {name for name in names if name.startswith(PROVIDERS)}
    ours = {n for n in names if config_key(n) or overriding_key(n) or topic_config_key(n)}
    unknown = sorted(names - of_providers - ours)

    check_names(unknown, "the pages")  # the others are a client's


def test_every_named_make_target_is_there() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    named = set(re.findall(r"(?:`|^\$ |^)make ([a-z-]+)", TEXT, re.MULTILINE))

    assert {"run", "test"} <= named
    assert named - targets == set()


def test_every_path_of_the_architecture_is_there() -> None:
    names = " ".join(re.findall(r"^\| (`.*?) \| ", PACKAGES, re.MULTILINE))
    paths = re.findall(r"`([a-z_/.]+)`", names)

    assert len(paths) > 40
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_everything_that_happens_somewhere_happens_there() -> None:
    table = text_of("architecture").partition("## Where things happen")[2].partition("\n## ")[0]
    places = re.findall(r"`(kbroker/[a-z_/]+(?:\.py)?)`(?:: ((?:`\w+`(?:, )?)+))?", table)

    assert len(places) > 15
    for path, names in places:
        assert (ROOT / path).exists(), path
        for name in re.findall(r"\w+", names):
            source = (ROOT / path).read_text(encoding="utf-8")
            assert re.search(rf"\b(def|class) {name}\b", source), f"{path}: {name}"


def test_the_architecture_names_every_package() -> None:
    rows = dict(re.findall(r"^\| `(kbroker/[a-z_/]*)` \| (.*) \|$", PACKAGES, re.MULTILINE))
    found = [path.parent.relative_to(ROOT) for path in (ROOT / "kbroker").rglob("__init__.py")]

    def is_named(package: Path) -> bool:  # in a row of its own, or in that of the folder it is in
        return f"{package}/" in rows or f"`{package.name}/`" in rows.get(f"{package.parent}/", "")

    assert [str(package) for package in found if not is_named(package)] == ["kbroker"]
