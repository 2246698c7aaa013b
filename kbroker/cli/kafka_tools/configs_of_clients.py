"""kafka-configs for users, clients and addresses: their quotas, and the SCRAM credentials of users,
shown and changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kbroker.admin.client_quota_changes import java_double
from kbroker.admin.config_changes import OP_DELETE
from kbroker.cli.kafka_tools import configs_of_users
from kbroker.cli.kafka_tools.tool_options import Given, ToolError
from kbroker.client.client_quotas import altered_quotas, described_quotas
from kbroker.client.cluster_configs import AlterableConfig
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.quota_words import Names
from kbroker.errors import KafkaError
from kbroker.java_hash import hash_map_order, java_hash
from kbroker.quotas.quota_entity import ADDRESS_KEYS, CLIENT_ID, CLIENT_KEYS, IP, USER
from kbroker.sasl.scram_keys import SCRAM_MECHANISMS

_TYPES = {"users": USER, "clients": CLIENT_ID, "ips": IP}
_SHORT = {"client": "clients", "user": "users", "ip": "ips"}  # in the tool's order
_DEFAULTS = {f"{short}-defaults": kind for short, kind in _SHORT.items()}
_WORDS = {USER: "user-principal", CLIENT_ID: "client-id", IP: "ip"}
_ENTITY = ("entity-type", "entity-name", "entity-default")


class Whose(NamedTuple):
    """Types as the tool names them, and a name of each; an empty one is the default. Names that
    are missing at the end mean all of their type.
    """

    kinds: tuple[str, ...]
    names: tuple[str, ...]

    @property
    def entity(self) -> dict[str, str | None]:
        """The names by type, None is the default."""
        pairs = zip(self.kinds, self.names, strict=False)
        return {_TYPES[kind]: name or None for kind, name in pairs}

    @property
    def any_of(self) -> list[str]:
        """The types of which all are meant."""
        return [_TYPES[kind] for kind in self.kinds[len(self.names) :]]

    @property
    def has_users_alone(self) -> bool:
        return self.kinds == ("users",)


def are_meant(given: Given) -> bool:
    """Whether the command line is about users, clients or addresses."""
    short = (*_SHORT, *_DEFAULTS)
    return any(map(given.has, short)) or not _TYPES.keys().isdisjoint(given.all("entity-type"))


def whose(given: Given) -> Whose:
    """Return who is meant. ToolError for what does not go together."""
    short = [each for each in (*_SHORT, *_DEFAULTS) if given.has(each)]
    if short:
        if any(map(given.has, _ENTITY)):
            raise ToolError(f"--{short[0]} cannot be given with --entity-type and its names")
        kinds = [_SHORT.get(each) or _DEFAULTS[each] for each in short]
        names = [given.one(each) or "" for each in short]
    else:
        kinds = given.all("entity-type")
        # Of a name and a default, the one that came first is for the first type.
        names = [
            name
            for option in given.values
            if option in _ENTITY[1:]
            for name in given.all(option) or [""]
        ]
        if names == [""]:
            names *= len(kinds)  # each may have said so: it is given once or twice
    _check(kinds, names)
    return Whose(tuple(kinds), tuple(names))


def _check(kinds: Sequence[str], names: Sequence[str]) -> None:
    if len(set(kinds)) < len(kinds):
        raise ToolError(f"Duplicate entity type(s) specified: {kinds[-1]}")
    if len(kinds) > 1 and set(kinds) != {"users", "clients"}:
        raise ToolError("Only 'users' and 'clients' entity types may be specified together")
    if len(names) > len(kinds):
        raise ToolError("More names are given than types of entities")


def described(links: ClusterLinks, wanted: Whose) -> Iterator[str]:
    """A line for each entity that has quotas, then for each user that has credentials."""
    for quotas in described_quotas(links, wanted.entity, is_whole=True, any_of=wanted.any_of):
        order = hash_map_order(quotas.values, len(quotas.values), java_hash)
        shown = ", ".join(f"{key}={java_double(float(quotas.values[key]))}" for key in order)
        yield f"Quota configs for {_words(quotas.entity)} are {shown}"
    if wanted.has_users_alone and wanted.names != ("",):
        yield from configs_of_users.described(links, wanted.names[0] if wanted.names else None)


def alter(links: ClusterLinks, wanted: Whose, changes: Sequence[AlterableConfig]) -> None:
    """Change quotas, or credentials of a user. ToolError for what cannot be done."""
    if len(wanted.names) < len(wanted.kinds):
        short = " or ".join(f"--{each}" for each, kind in _SHORT.items() if kind in wanted.kinds)
        raise ToolError(f"--alter needs --entity-name, --entity-default or {short}")
    _check_keys(wanted, changes)
    if wanted.has_users_alone and not any(change.name in CLIENT_KEYS for change in changes):
        if wanted.names == ("",):
            raise ToolError(
                "The use of --entity-default or --user-defaults is not allowed with User SCRAM "
                "Credentials using --bootstrap-server."
            )
        configs_of_users.alter(links, wanted.names[0], changes)
        return
    values = {
        change.name: None if change.config_operation == OP_DELETE else _number(change)
        for change in changes
    }
    there = described_quotas(links, wanted.entity, is_whole=True)
    known = there[0].values if there else {}
    missing = [key for key, value in values.items() if value is None and key not in known]
    if missing:
        raise ToolError(f"Invalid config(s): {','.join(missing)}")
    try:
        (refusal,) = altered_quotas(links, [(wanted.entity, values)])
    except KafkaError as error:
        refusal = error
    if refusal is not None:
        raise ToolError(f"Error while executing config command: {refusal.reason}")


def done(wanted: Whose) -> str:
    """The sentence about a change."""
    kind, name = wanted.kinds[0], wanted.names[0]
    if name:
        return f"Completed updating config for {kind[:-1]} {name}."
    return f"Completed updating default config for {kind} in the cluster."


def _check_keys(wanted: Whose, changes: Sequence[AlterableConfig]) -> None:
    if wanted.kinds == ("ips",):
        keys, what, kind = set(ADDRESS_KEYS), "connection quota", "ips"
    elif wanted.has_users_alone:
        keys, what, kind = {*CLIENT_KEYS, *SCRAM_MECHANISMS}, "quota and SCRAM credential", "users"
    else:
        keys, what, kind = set(CLIENT_KEYS), "quota", "clients"
    unknown = [change for change in changes if change.name not in keys]
    if unknown:
        is_gone = unknown[0].config_operation == OP_DELETE and kind != "ips"
        raise ToolError(
            f"Only {what} configs can be {'deleted' if is_gone else 'added'} for '{kind}' using "
            f"--bootstrap-server. Unexpected config names: {','.join(c.name for c in unknown)}"
        )
    names = {change.name for change in changes}
    if not names.isdisjoint(SCRAM_MECHANISMS) and not names.isdisjoint(CLIENT_KEYS):
        raise ToolError(
            "Cannot alter both quota and SCRAM credential configs simultaneously for 'users' using "
            "--bootstrap-server."
        )


def _number(change: AlterableConfig) -> float:
    try:
        return float(change.value or "")
    except ValueError as error:
        raise ToolError(
            f"Cannot parse quota configuration value for {change.name}: {change.value}"
        ) from error


def _words(entity: Names) -> str:
    return ", ".join(
        f"the default {word}" if entity[kind] is None else f"{word} '{entity[kind]}'"
        for kind, word in _WORDS.items()
        if kind in entity
    )
