"""Settings of groups as raw sequences of DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and
ListConfigResources, and what comes of each: `python -m compat_tests.answers.group_settings` plays
them to kbroker and to Apache Kafka 4.3.1, and prints what differs without a reason; `--record`
writes down what Apache Kafka answers.

Settings of share groups and streams groups are left out of descriptions.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from compat_tests.answers.logins import unexplained
from compat_tests.answers.logins_different import Different
from compat_tests.running import apache_kafka
from compat_tests.wire.wire_client import WireClient

RECORDED = Path(__file__).with_name("group_settings.json")
DESCRIBE, REPLACE, ALTER, LIST = 32, 33, 44, 74
TOPIC, GROUP = 2, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
ASSIGNMENT = "consumer.assignment.interval.ms"
SETTLES_S = 0.4  # the time in which a broker of KRaft hears of what its controller did
_OTHERS = ("share.", "streams.")
Change = tuple[str, int, str | None]


class Stage(NamedTuple):
    """One broker, and the group of the sequence that is played."""

    wire: WireClient
    group: str
    settles_s: float

    def named(self, group: str) -> str:
        return group.replace("{g}", self.group)

    def shown(self, text: str) -> str:
        return text.replace(self.group, "{g}")


Step = Callable[[Stage], str]


def alter(*changes: Change, group: str = "{g}", version: int = 1, check: bool = False) -> Step:
    """Change settings of a group one by one."""
    configs = [{"name": name, "config_operation": op, "value": to} for name, op, to in changes]
    return _changing(ALTER, version, check, [(GROUP, group, configs)])


def replace(*settings: tuple[str, str | None], group: str = "{g}", **facts: Any) -> Step:
    """Give a group these settings and no others."""
    configs = [{"name": name, "value": value} for name, value in settings]
    version, check = facts.get("version", 2), facts.get("check", False)
    return _changing(REPLACE, version, check, [(GROUP, group, configs)])


def alter_several(*resources: tuple[int, str, list[Change]]) -> Step:
    """Change several resources in one request."""
    return _changing(
        ALTER, 1, False,
        [(kind, name, [{"name": n, "config_operation": op, "value": v} for n, op, v in changes])
         for kind, name, changes in resources],
    )  # fmt: skip


def _changing(
    key: int, version: int, check: bool, resources: list[tuple[int, str, list[dict[str, Any]]]]
) -> Step:
    def step(stage: Stage) -> str:
        asked = [
            {"resource_type": kind, "resource_name": stage.named(name), "configs": configs}
            for kind, name, configs in resources
        ]
        answer = stage.wire.call(key, version, resources=asked, validate_only=check)
        time.sleep(stage.settles_s)
        return "; ".join(sorted(
            stage.shown(f"{a.resource_type} {a.resource_name}: {int(a.error_code)} {a.error_message}")
            for a in answer.responses
        ))  # fmt: skip

    return step


def describe(*keys: str, group: str = "{g}", version: int = 4, synonyms: bool = True) -> Step:
    """Describe a group; a `*` as key asks for none."""

    def step(stage: Stage) -> str:
        resource: dict[str, Any] = {"resource_type": GROUP, "resource_name": stage.named(group)}
        resource["configuration_keys"] = None if not keys else [k for k in keys if k != "*"]
        facts = {"include_synonyms": synonyms} if version >= 1 else {}
        answer = stage.wire.call(DESCRIBE, version, resources=[resource], **facts)
        (result,) = answer.results
        rows = sorted(map(_row, (c for c in result.configs if not c.name.startswith(_OTHERS))))
        said = f"{int(result.error_code)} {result.error_message or ''}".strip()
        return stage.shown("; ".join([said, *rows]))

    return step


def _row(row: Any) -> str:
    source = getattr(row, "config_source", None)
    kind = getattr(row, "config_type", None)
    synonyms = [f"{s.source}:{s.name}={s.value}" for s in getattr(row, "synonyms", ())]
    flags = f"{row.read_only:d}{row.is_sensitive:d}"
    return f"{row.name}={row.value} {source} {kind} {flags} {','.join(synonyms)}"


def listed(*types: int, version: int = 1) -> Step:
    """List resources, of groups only that of the sequence, and no brokers and topics."""

    def step(stage: Stage) -> str:
        fields = {"resource_types": list(types)} if version >= 1 else {}
        answer = stage.wire.call(LIST, version, **fields)
        found = [
            (getattr(r, "resource_type", 16), r.resource_name) for r in answer.config_resources
        ]
        own = [f"{kind} {name}" for kind, name in found if stage.group in name]
        return stage.shown(f"{int(answer.error_code)} {sorted(own)}")

    return step


def sequences() -> Iterator[tuple[str, tuple[Step, ...]]]:
    """Yield every sequence, each with a name of its own."""
    for making in (_values, _names, _operations, _replaced, _several, _described, _lists):
        yield from making().items()


def _seen(*before: Step) -> tuple[Step, ...]:
    return (*before, describe(), listed(GROUP))


def _values() -> dict[str, tuple[Step, ...]]:
    found: dict[str, tuple[Step, ...]] = {}
    for setting, values in {
        SESSION: ("44999", "45000", "50000", "60000", "60001", "0", "-1", "", " 50000 ", "x", "5e4",
                  "2147483648", "50000.0", "0x1", "+50000", "1" * 200),
        HEARTBEAT: ("4999", "5000", "15000", "15001", "0", "x"),
        ASSIGNMENT: ("-1", "0", "1", "15000", "15001", "x"),
    }.items():  # fmt: skip
        for value in values:
            found[f"{setting}={value}"] = _seen(alter((setting, SET, value)))
    found["two that fit"] = _seen(alter((SESSION, SET, "50000"), (HEARTBEAT, SET, "6000")))
    found["one of two is wrong"] = _seen(alter((SESSION, SET, "50000"), (HEARTBEAT, SET, "1")))
    found["two are wrong"] = _seen(alter((SESSION, SET, "1"), (HEARTBEAT, SET, "1")))
    found["another value"] = _seen(
        alter((SESSION, SET, "50000")), alter((SESSION, SET, "55000"))
    )  # fmt: skip
    found["the same value"] = _seen(alter((SESSION, SET, "50000")), alter((SESSION, SET, "50000")))
    found["the default"] = _seen(alter((SESSION, SET, "45000")))
    found["null"] = _seen(alter((SESSION, SET, None)))
    found["checked only"] = _seen(alter((SESSION, SET, "50000"), check=True))
    found["checked and wrong"] = _seen(alter((SESSION, SET, "1"), check=True))
    found["version 0"] = _seen(alter((SESSION, SET, "50000"), version=0))
    return found


def _names() -> dict[str, tuple[Step, ...]]:
    found: dict[str, tuple[Step, ...]] = {}
    for name in ("no.such", "", "session.timeout.ms", "group.consumer.session.timeout.ms",
                 "CONSUMER.SESSION.TIMEOUT.MS", "retention.ms", "share.no.such"):  # fmt: skip
        found[f"setting {name!r}"] = _seen(alter((name, SET, "50000")))
    found["a setting of share groups"] = _seen(alter(("share.session.timeout.ms", SET, "50000")))
    found["a setting of streams groups"] = _seen(
        alter(("streams.session.timeout.ms", SET, "50000"))
    )  # fmt: skip
    for group in (
        "{g} with spaces",
        "{g}/with/slashes",
        "{g}-é-ü-😀",
        "{g}%41",
        "<{g}>",
        "{g}" * 40,
    ):
        found[f"group {group[:20]}"] = (
            alter((SESSION, SET, "50000"), group=group), describe(group=group), listed(GROUP),
            alter((SESSION, DELETE, None), group=group), describe(group=group), listed(GROUP),
        )  # fmt: skip
    found["group without a name"] = (alter((SESSION, SET, "50000"), group=""), describe(group=""))
    found["group without a name, replaced"] = (replace((SESSION, "50000"), group=""),)
    found["group of a dot"] = (
        alter((SESSION, SET, "50000"), group="."),
        describe(SESSION, group="."),
    )
    return found


def _operations() -> dict[str, tuple[Step, ...]]:
    given = alter((SESSION, SET, "50000"), (HEARTBEAT, SET, "6000"))
    return {
        "delete one": _seen(given, alter((SESSION, DELETE, None))),
        "delete one, with a value": _seen(given, alter((SESSION, DELETE, "7"))),
        "delete all": _seen(given, alter((SESSION, DELETE, None), (HEARTBEAT, DELETE, None))),
        "delete what is not set": _seen(alter((SESSION, DELETE, None))),
        "delete an unknown one": _seen(alter(("no.such", DELETE, None))),
        "append": _seen(alter((SESSION, APPEND, "50000"))),
        "append null": _seen(alter((SESSION, APPEND, None))),
        "append to an unknown one": _seen(alter(("no.such", APPEND, "1"))),
        "subtract": _seen(given, alter((SESSION, SUBTRACT, "50000"))),
        "an unknown operation": _seen(alter((SESSION, 9, "50000"))),
        "one key twice": _seen(alter((SESSION, SET, "50000"), (SESSION, SET, "55000"))),
        "set and delete one key": _seen(given, alter((SESSION, SET, "55000"), (SESSION, DELETE, None))),
        "no changes": _seen(alter()),
        "no changes, then all gone": _seen(given, alter()),
        "heartbeat first, session later": _seen(
            alter((HEARTBEAT, SET, "15000")), alter((SESSION, SET, "45000"))
        ),
    }  # fmt: skip


def _replaced() -> dict[str, tuple[Step, ...]]:
    given = alter((SESSION, SET, "50000"), (HEARTBEAT, SET, "6000"))
    found = {
        f"replace, version {version}": _seen(given, replace((ASSIGNMENT, "7"), version=version))
        for version in (1, 2)
    }
    return found | {
        "replace by nothing": _seen(given, replace()),
        "replace nothing by nothing": _seen(replace()),
        "replace by null": _seen(given, replace((SESSION, None))),
        "replace by a wrong one": _seen(given, replace((SESSION, "1"))),
        "replace by an unknown one": _seen(given, replace(("no.such", "1"))),
        "replace, checked only": _seen(given, replace((ASSIGNMENT, "7"), check=True)),
        "replace one key twice": _seen(replace((SESSION, "50000"), (SESSION, "55000"))),
    }


def _several() -> dict[str, tuple[Step, ...]]:
    def given(name: str, value: str = "50000") -> tuple[int, str, list[Change]]:
        return GROUP, name, [(SESSION, SET, value)]

    return {
        "two groups": (
            alter_several(given("{g}"), given("{g}b")), describe(), describe(group="{g}b"),
            listed(GROUP),
        ),
        "one of two groups is wrong": _seen(alter_several(given("{g}"), given("{g}b", "1"))),
        "one group twice": _seen(alter_several(given("{g}"), given("{g}"))),
        "a group and a topic of its name": _seen(
            alter_several(given("{g}"), (TOPIC, "{g}", [("retention.ms", SET, "1")]))
        ),
    }  # fmt: skip


def _described() -> dict[str, tuple[Step, ...]]:
    given = alter((SESSION, SET, "50000"))
    found = {
        f"describe, version {version}": (
            given,
            describe(version=version),
            describe(SESSION, version=version),
        )
        for version in (1, 2, 3, 4)
    }
    return found | {
        "describe without synonyms": (given, describe(synonyms=False)),
        "describe one setting": (given, describe(SESSION)),
        "describe an unknown setting": (given, describe("no.such")),
        "describe no settings": (given, describe("*")),
        "describe one setting twice": (given, describe(SESSION, SESSION)),
    }  # fmt: skip


def _lists() -> dict[str, tuple[Step, ...]]:
    given = alter((SESSION, SET, "50000"))
    return {
        "list all": (given, listed()),
        "list groups twice": (given, listed(GROUP, GROUP)),
        "list groups and topics": (given, listed(GROUP, TOPIC)),
        "list topics": (given, listed(TOPIC)),
        "list of version 0": (given, listed(version=0)),
        "list an unknown type": (given, listed(GROUP, 5)),
        "list after a check": (alter((SESSION, SET, "50000"), check=True), listed(GROUP)),
    }


def play(bootstrap: str, settles_s: float) -> dict[str, list[str]]:
    """Play all sequences to a broker; returns what comes of each."""
    wire = WireClient(bootstrap)
    found = {}
    for number, (name, steps) in enumerate(sequences()):
        stage = Stage(wire, f"grp{number:03d}", settles_s)
        found[name] = [step(stage) for step in steps]
    wire.close()
    return found


@contextmanager
def kbroker(*options: str) -> Iterator[str]:
    """A kbroker; `options` may name another directory."""
    with tempfile.TemporaryDirectory(prefix="group-settings-") as root:
        port = apache_kafka.free_port()
        command = [sys.executable, "-m", "kbroker.cli", "start", "--listen", f"127.0.0.1:{port}"]
        with subprocess.Popen(
            [*command, "--data", f"{root}/data", *options], stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
        ) as process:  # fmt: skip
            assert process.stdout is not None
            try:
                assert any("listening on" in line for line in process.stdout)
                yield f"127.0.0.1:{port}"
            finally:
                process.terminate()


@contextmanager
def apache() -> Iterator[str]:
    """Apache Kafka 4.3.1."""
    with apache_kafka.broker(apache_kafka.NEWEST, {}) as (bootstrap, _):
        yield bootstrap


_DEFAULTS = (
    f"0; {ASSIGNMENT}=1000 5 3 00 5:group.{ASSIGNMENT}=1000; {HEARTBEAT}=5000 5 3 00 "
    f"5:group.{HEARTBEAT}=5000; "
)
_SESSION = f"{SESSION}=45000 5 3 00 5:group.{SESSION}=45000"


def _unknown(setting: str) -> Different:
    return Different(
        [f"32 {{g}}: 40 Unknown group config name: {setting}", f"{_DEFAULTS}{_SESSION}", "0 []"],
        "nothing here acts on it",
    )


DIFFERENT: Mapping[str, Different] = {
    f"{SESSION}= 50000 ": Different(
        ["0 ['32 {g}']"],
        "Apache Kafka describes it without the spaces, and fails at them as it applies it",
    ),
    "a setting of share groups": _unknown("share.session.timeout.ms"),
    "a setting of streams groups": _unknown("streams.session.timeout.ms"),
    "group of a dot": Different(
        ["32 .: 42 A group named . cannot have settings: no node can have this name.",
         f"0; {_SESSION}"],
        "settings are kept in a node of the group's name",
    ),
}  # fmt: skip


def main() -> None:
    """Play them to both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true")
    record = parser.parse_args().record
    if record:
        with apache() as bootstrap:
            theirs = play(bootstrap, SETTLES_S)
        RECORDED.write_text(json.dumps({"4.3.1": theirs}, ensure_ascii=False, indent=0) + "\n")
    with kbroker() as bootstrap:
        ours = play(bootstrap, 0)
    lines = unexplained(ours, json.loads(RECORDED.read_text()), DIFFERENT)
    print(f"{len(ours)} sequences, {len(lines)} unexplained")
    print(*lines, sep="\n")


if __name__ == "__main__":
    main()
