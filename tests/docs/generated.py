"""The parts of the pages that are made from the code: requests, settings, commands.
`python -m tests.docs.generated` writes them.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator

import click

from compat_tests.matrix.cells import kept
from compat_tests.matrix.pages import markdown
from compat_tests.metrics.reasons import NOT_IN_APACHE, NOT_IN_KBROKER
from kbroker.acl.acl import AclOperation, AclResourceType, label_of
from kbroker.acl.rule_words import NOUNS
from kbroker.apis import registry
from kbroker.apis.authorization import AskedInside, ForAnswer, ForEach, ForRequest, Need
from kbroker.cli.command_line import cli
from kbroker.cli.kafka_tools.command import TOOLS, tool_of
from kbroker.cli.pipeline.archive import ArchiveCommand
from kbroker.cli.pipeline.archive_upkeep import UPKEEP
from kbroker.config.config_def import ConfigKey
from kbroker.config.config_values import to_text
from kbroker.config.kafka_config import DYNAMIC_ONLY, KEYS_BY_GROUP, config_key
from kbroker.config.profiles import PROFILES
from kbroker.config.topic_config import TopicConfig
from kbroker.protocol.schema import message_spec
from tests.docs.packages_picture import PICTURE, picture
from tests.docs.pages import DOCS

END = "<!-- end -->"
_TITLES = {
    "kbroker": "kbroker's own",
    "socket_server": "Listeners and connections",
    "server": "The broker",
    "log": "Logs",
    "group": "Consumer groups",
    "consumer_group": "Consumer groups of KIP-848",
    "zk": "ZooKeeper",
    "replication": "Replication and the controller",
    "transaction": "Transactions",
    "quota": "Quotas",
    "ssl": "TLS",
    "sasl": "SASL",
    "security": "Authorization and tokens",
    "metrics": "Metrics",
    "quorum": "KRaft",
    "share_group": "Share groups",
    "remote_storage": "Tiered storage",
}
_ELSEWHERE = ("-h, --help", "--help", "--command-config ", "-X, ")
_CHANGES = {"read-only": "", "per-broker": "broker", "cluster-wide": "cluster"}
_UNITS = {"d": 86_400_000, "h": 3_600_000, "min": 60_000, "s": 1000}
_SUPPORT = {"used": "", "accepted": "accepted", "not yet": "not yet"}


def compatibility() -> str:
    """One line per served key: number, name, versions served, versions declared by Kafka."""
    rows = [
        (str(key), api.name, str(api.versions), str(message_spec(api.request_class).versions))
        for key, api in registry.registered().items()
    ]
    return _table("| Key | API | Versions served | Versions in Kafka |", "|---:|---|---|---|", rows)


def rights() -> str:
    """The operations that each request needs, as handlers are registered."""
    rows = [(str(key), api.name, _needed(api)) for key, api in registry.registered().items()]
    return _table("| Key | API | Needs |", "|---:|---|---|", rows)


def rights_of(api: registry.Api) -> set[tuple[AclOperation, AclResourceType]]:
    """Each operation that an API may ask for, with the kind of resource."""
    return {
        (operation, kind)
        for need in api.needs
        for kind in _kinds(need)
        for operation in (need.operation, getattr(need, "unless", None))
        if operation is not None
    } | {
        (need.unless, AclResourceType.CLUSTER)
        for need in api.needs
        if isinstance(need, ForEach) and need.unless is not None
    }


def _needed(api: registry.Api) -> str:
    texts = []
    for need in api.needs:
        kinds = " or ".join(NOUNS[kind] for kind in _kinds(need))
        text = f"{label_of(need.operation)} on {_THE.get(kinds, kinds)}"
        other = getattr(need, "unless", None)
        if other is not None:
            place = " on the cluster" if isinstance(need, ForEach) else ""
            text += f", or {label_of(other)}{place}"
        texts.append(text if isinstance(need, ForRequest | ForEach) else f"({text})")
    return "; ".join(dict.fromkeys(texts)) or "nothing"


def _kinds(need: Need) -> tuple[AclResourceType, ...]:
    """The kinds of resources that a need is about, by the name of what finds them."""
    if isinstance(need, ForAnswer | AskedInside):
        return (need.resource_type,)
    name = need.resource.__qualname__
    if name in _KINDS_BY_FINDER:
        return _KINDS_BY_FINDER[name]
    found = [kind for word, kind in _KINDS_BY_WORD.items() if word in name]
    assert len(found) == 1, f"which kind of resource {name} finds has to stand in _KINDS_BY_FINDER"
    return tuple(found)


_THE = {"cluster": "the cluster"}
_KINDS_BY_WORD = {
    "topic": AclResourceType.TOPIC,
    "group": AclResourceType.GROUP,
    "transaction": AclResourceType.TRANSACTIONAL_ID,
    "cluster": AclResourceType.CLUSTER,
    "token": AclResourceType.DELEGATION_TOKEN,
    "user": AclResourceType.USER,
}
_KINDS_BY_FINDER = {
    "_by_id": (AclResourceType.TOPIC,),
    "_only_key": (AclResourceType.GROUP, AclResourceType.TRANSACTIONAL_ID),
    "_each_key": (AclResourceType.GROUP, AclResourceType.TRANSACTIONAL_ID),
    "config_resource": (AclResourceType.TOPIC, AclResourceType.CLUSTER),
}


def clients() -> str:
    """The results that are kept of `make compat`, side by side."""
    results = kept()
    brokers = ", ".join(f"{result.target} ({result.day})" for result in results)
    return f"Brokers: {brokers}\n\n{markdown(results)}"


# ---- settings


def profiles() -> str:
    """The settings that a profile sets, beside Kafka's defaults."""
    names = sorted({name for each in PROFILES.values() for name in each})
    rows = []
    for name in names:
        key = config_key(name)
        assert key is not None
        chosen = [f"`{each[name]}`" if name in each else "" for each in PROFILES.values()]
        rows.append((f"`{name}`", *chosen, _default(key)))
    head = f"| Setting | {' | '.join(f'`{name}`' for name in PROFILES)} | Default |"
    return _table(head, "|---|---|---|---|", rows)


def settings() -> str:
    """Every setting of a broker by group, then those of topics."""
    assert _TITLES.keys() == KEYS_BY_GROUP.keys()
    parts = [_group(title, KEYS_BY_GROUP[name], "Change") for name, title in _TITLES.items()]
    return "\n".join([*parts, _group("Topics", TopicConfig.keys, "Default of the broker")])


def dynamic_only() -> str:
    """The names of settings that are only set while a broker runs."""
    return "".join(f"* `{name}`\n" for name in DYNAMIC_ONLY)


def _group(title: str, keys: Iterable[ConfigKey], third: str) -> str:
    rows = [
        (f"`{key.name}`", key.type.name.lower(), _default(key), _third(key, third), _effect(key))
        for key in keys
        if not key.internal
    ]
    head = f"| Setting | Type | Default | {third} | Effect |"
    return f"### {title}\n\n" + _table(head, "|---|---|---|---|---|", rows)


def _third(key: ConfigKey, third: str) -> str:
    if third == "Change":
        return _CHANGES[key.dynamic]
    return f"`{key.synonyms[0]}`" if key.synonyms else ""


def _default(key: ConfigKey) -> str:
    shown = _value(to_text(key.default))
    if not key.name.endswith(".ms") or not isinstance(key.default, int):
        return shown
    for unit, size_ms in _UNITS.items():
        if key.default and key.default % size_ms == 0:
            return f"{shown} ({key.default // size_ms} {unit})"
    return shown


def _value(text: str | None) -> str:
    return "none" if text is None else "empty" if text == "" else f"`{text}`"


def _effect(key: ConfigKey) -> str:
    support = _SUPPORT[key.support]
    return f"{f'**{support}:** ' if support else ''}{key.doc}{_bounds(key)}"


def _bounds(key: ConfigKey) -> str:
    found = []
    if key.at_least is not None:
        found.append(f"at least {key.at_least}")
    if key.at_most is not None:
        found.append(f"at most {key.at_most}")
    if key.one_of or key.list_of:
        allowed = ", ".join(f"`{value}`" for value in key.one_of or key.list_of if value)
        found.append(f"{'one' if key.one_of else 'some'} of {allowed}")
    return f" ({'; '.join(found)})" if found else ""


# ---- commands


def commands() -> str:
    """Every command with its usage, its help and its options."""
    return "\n".join(
        _command(names, command)
        for names, command in all_commands()
        if not isinstance(command, click.Group)
    )


def kafka_tools() -> str:
    """Every tool of Kafka that is served, with its options."""
    return _table(
        "| Tool | Options |",
        "|---|---|",
        (
            (f"`kafka-{name}`", ", ".join(f"`--{option}`" for option in tool_of(name).options))
            for name in sorted(TOOLS)
        ),
    )


def all_commands() -> Iterator[tuple[str, click.Command]]:
    """Names of commands, such as `topic create`, with the commands; the program itself has none."""
    return _below("", cli)


def _below(names: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield names, command
    context = click.Context(command)
    below: dict[str, click.Command | None] = {}
    if isinstance(command, click.Group):
        below = {
            name: command.get_command(context, name) for name in command.list_commands(context)
        }
    elif isinstance(command, ArchiveCommand):
        below = dict(UPKEEP)
    for name, each in below.items():
        assert each is not None
        yield from _below(f"{names} {name}".strip(), each)


def _command(names: str, command: click.Command) -> str:
    context = click.Context(command, info_name=f"kbroker {names}")
    usage = " ".join([f"kbroker {names}", *command.collect_usage_pieces(context)])
    records = [parameter.get_help_record(context) for parameter in command.get_params(context)]
    named = [(name, text) for name, text in filter(None, records) if text]
    rows = [(f"`{name}`", text) for name, text in named if not name.startswith(_ELSEWHERE)]
    if "-X, --command-property NAME=VALUE" in dict(named):
        rows.append(("`--command-config`, `-X`", "see [Reaching a cluster](#reaching-a-cluster)"))
    parts = [f"### kbroker {names}", f"`{usage}`", *_paragraphs(command.help or "")]
    if rows:
        parts.append(_table("| Option | What it does |", "|---|---|", rows).rstrip("\n"))
    return "\n\n".join(parts) + "\n"


def _paragraphs(text: str) -> Iterator[str]:
    """A help text's, those whose lines are kept as code."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if paragraph.startswith("\b\n"):
            yield f"```text\n{inspect.cleandoc(paragraph[2:])}\n```"
        else:
            yield textwrap.fill(paragraph, 120)


# ---- pages


def _table(head: str, line: str, rows: Iterable[tuple[str, ...]]) -> str:
    cells = (" | ".join(" ".join(cell.split()).replace("|", r"\|") for cell in row) for row in rows)
    return "\n".join([head, line, *(f"| {row} |".replace("|  |", "| |") for row in cells)]) + "\n"


def metric_differences() -> str:
    """List what of metrics differs from Apache Kafka's, and why."""
    texts = []
    for title, reasons in (
        ("Apache Kafka alone shows:", NOT_IN_KBROKER),
        ("kbroker alone shows:", NOT_IN_APACHE),
    ):
        rows = [(", ".join(f"`{name}`" for name in names.split()), why) for why, names in reasons]
        texts.append(f"{title}\n\n" + _table("| Names | Why |", "|---|---|", rows))
    return "\n".join(texts)


PARTS: dict[str, tuple[str, Callable[[], str]]] = {
    "compatibility": ("compatibility", compatibility),
    "clients": ("compatibility", clients),
    "rights": ("security", rights),
    "profiles": ("configuration", profiles),
    "settings": ("configuration", settings),
    "dynamic-only": ("configuration", dynamic_only),
    "commands": ("commands", commands),
    "metric-differences": ("metrics", metric_differences),
    "kafka-tools": ("commands", kafka_tools),
}


def part_in(text: str, name: str) -> str:
    """Return the text between the two marks of a part."""
    return text.partition(f"<!-- generated: {name} -->\n")[2].partition(END)[0]


def main() -> None:
    """Write every part into its page, and the picture of the packages."""
    PICTURE.write_text(picture(), encoding="utf-8")
    for name, (page, made) in PARTS.items():
        path = DOCS / f"{page}.md"
        text = path.read_text(encoding="utf-8")
        mark = f"<!-- generated: {name} -->\n"
        before, _, rest = text.partition(mark)
        after = rest.partition(END)[2]
        path.write_text(before + mark + made() + END + after, encoding="utf-8")


if __name__ == "__main__":
    main()
