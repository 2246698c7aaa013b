"""Settings from outside: properties files, the environment and `--override`, joined in Kafka's
order.

Law: defaults < profile < properties file < environment < override < dynamic settings. Texts of
files and variables are arguments, which only the command line reads, so that a test sees no setting
of its machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kbroker.config.foreign_settings import (
    KAFKA_4_SETTINGS,
    PLUGIN_PREFIXES,
    PLUGIN_SETTINGS,
    PROVIDERS,
)
from kbroker.config.kafka_config import (
    ORIGIN_ENVIRONMENT,
    ORIGIN_FILE,
    ORIGIN_OVERRIDE,
    ORIGIN_PROFILE,
    KafkaConfig,
    config_key,
    config_keys,
)
from kbroker.config.listener_overrides import listener_names
from kbroker.config.listeners import parse_security_protocol_map
from kbroker.config.profiles import PROFILES
from kbroker.errors import ConfigError
from kbroker.near_names import did_you_mean

if TYPE_CHECKING:
    from kbroker.server.start.java_options import JavaOptions

_CLUSTER_ID_VARIABLES = ("CLUSTER_ID", "KAFKA_CLUSTER_ID", "KAFKA_KRAFT_CLUSTER_ID")
JAVA_OPTIONS = "KAFKA_OPTS"
_READ_ELSEWHERE = (*_CLUSTER_ID_VARIABLES, JAVA_OPTIONS)
_PREFIXES = ("KAFKA_CFG_", "KAFKA_")
# Read by Java start scripts, or by images for their own ends: they mean nothing to this broker.
_IGNORED_VARIABLES = re.compile(
    r"KAFKA_(HEAP_OPTS|JMX_.*|JVM_PERFORMANCE_OPTS|GC_LOG_OPTS|DEBUG|HOME|VERSION|LOG4J_.*|TOOLS_LOG4J_.*)"
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class SettingSources:
    """Everything a start reads; texts by name, later fields win."""

    profile: str | None = None  # None: what kbroker.profile says elsewhere, else dev
    properties: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    logins: str | None = None  # the text of the file that KAFKA_OPTS names
    overrides: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class LoadedSettings:
    """The settings in force, the cluster id asked for, and a line for each that has no effect."""

    config: KafkaConfig
    cluster_id: str | None
    warnings: tuple[str, ...]


def load_settings(sources: SettingSources) -> LoadedSettings:
    """Join the sources; raises ConfigError for a value that cannot be used."""
    environment, notes = environment_settings(sources.environment)
    java = _java_options(sources.environment)
    if java is not None:
        meant = "has no effect: it is meant for Java"
        notes += [f"{each} of {JAVA_OPTIONS} {meant}" for each in java.ignored]
    layers = (
        (ORIGIN_ENVIRONMENT, java.settings() if java else {}),  # as in Kafka, any setting wins
        (ORIGIN_FILE, sources.properties),
        (ORIGIN_ENVIRONMENT, environment),
        (ORIGIN_OVERRIDE, sources.overrides),
    )
    values: dict[str, str] = {}
    origins: dict[str, str] = {}
    for origin, layer in layers:
        values.update(layer)
        origins.update(dict.fromkeys(layer, origin))
    if any("${" in text for text in values.values()):
        from kbroker.server.start.config_providers import resolved  # most starts have no variables

        values = resolved(values, sources.environment)
    profile = sources.profile or values.get("kbroker.profile", "dev")
    if profile not in PROFILES:
        raise ConfigError(f"unknown profile {profile}: choose {' or '.join(PROFILES)}")
    for name, text in _profile_values(profile, values).items():
        if name not in values or name == "kbroker.profile":
            values[name] = text
            origins[name] = ORIGIN_PROFILE
    if java is not None and sources.logins is not None:
        logins = java.settings_of_logins(sources.logins, _sasl_listeners(values))
        values = logins | values
        origins = dict.fromkeys(logins, ORIGIN_ENVIRONMENT) | origins
    config, warnings = KafkaConfig.from_values(values, origins)
    cluster_ids = filter(None, map(sources.environment.get, _CLUSTER_ID_VARIABLES))
    return LoadedSettings(
        config=config, cluster_id=next(cluster_ids, None), warnings=(*notes, *warnings)
    )


def _java_options(environment: Mapping[str, str]) -> JavaOptions | None:
    text = environment.get(JAVA_OPTIONS)
    if text is None:
        return None
    from kbroker.server.start.java_options import parse_java_options  # for few starts

    return parse_java_options(text)


def _sasl_listeners(values: Mapping[str, str]) -> list[str]:
    """The names of listeners at which clients log in."""
    known = "listener.security.protocol.map"
    protocols = parse_security_protocol_map(known, values.get(known, ""))
    listeners = listener_names(values.get("listeners", ""))
    return [each for each in listeners if protocols.get(each, each).startswith("SASL_")]


def _profile_values(profile: str, values: Mapping[str, str]) -> dict[str, str]:
    """The profile's values, without a broker id if one is set under its other name."""
    chosen = {**PROFILES[profile], "kbroker.profile": profile}
    if "node.id" in values:
        chosen.pop("broker.id", None)
    return chosen


def parse_overrides(texts: Iterable[str]) -> dict[str, str]:
    """Settings from `KEY=VALUE` texts; raises ConfigError for one without `=`."""
    values = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"--override {text!r} is not KEY=VALUE")
        values[name.strip()] = value.strip()
    return values


def environment_settings(environment: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The settings among the variables, and a line for each Kafka variable that has no effect.

    `KAFKA_` or `KAFKA_CFG_`, then the name in capitals: `_` for a dot, `__` for an underscore,
    `___` for a dash. kbroker's own settings may also go by `KBROKER_` and the rest of their name.
    """
    by_variable = {_variable(key.name): key.name for key in config_keys()}
    values: dict[str, str] = {}
    notes: list[str] = []
    for variable in sorted(environment, key=lambda name: (name.startswith("KAFKA_CFG_"), name)):
        if variable.startswith("KBROKER_") and variable in by_variable:
            values[by_variable[variable]] = environment[variable]
        if not variable.startswith("KAFKA_") or variable in _READ_ELSEWHERE:
            continue
        name = _setting_of(variable, by_variable)
        if name is not None:
            values[name] = environment[variable]
        elif _IGNORED_VARIABLES.fullmatch(variable):
            notes.append(f"{variable} is set but has no effect: it is meant for Java")
        else:
            hint = _near_variable(variable, by_variable)
            notes.append(f"{variable} is set but does not name a setting{hint}")
    return values, notes


def _near_variable(variable: str, known: Iterable[str]) -> str:
    prefix = next(each for each in _PREFIXES if variable.startswith(each))
    return did_you_mean(variable, [f"{prefix}{each}" for each in known], shown=1)


def _variable(name: str) -> str:
    return name.replace("_", "__").replace("-", "___").replace(".", "_").upper()


def _setting_of(variable: str, by_variable: Mapping[str, str]) -> str | None:
    for prefix in _PREFIXES:
        rest = variable.removeprefix(prefix)
        if rest == variable:
            continue
        if rest in by_variable:
            return by_variable[rest]
        # Some images swap dash and underscore: the name that exists counts.
        for name in (_plain_name(rest), _plain_name(rest, dash="__", underscore="___")):
            if _is_known(name):
                return name
    return None


def _plain_name(rest: str, dash: str = "___", underscore: str = "__") -> str:
    marks = {dash: "-", underscore: "_", "_": "."}
    return re.sub("___|__|_", lambda match: marks[match[0]], rest.lower())


def _is_known(name: str) -> bool:
    return (
        config_key(name) is not None
        or name in PLUGIN_SETTINGS
        or name in KAFKA_4_SETTINGS
        or name.startswith((*PLUGIN_PREFIXES, PROVIDERS))
    )
