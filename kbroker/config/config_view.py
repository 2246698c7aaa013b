"""Settings as DescribeConfigs answers them: value, source, synonyms, type, documentation.

Law: values, sources and synonyms are those that Kafka 3.9 answers, of groups those of 4.3, so that
tools show the same of both. That includes its oddities: synonyms that come before the setting's own
name are dropped, so a setting in force through another unit (log.roll.hours) shows none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kbroker.config.config_def import ConfigKey
from kbroker.config.config_resources import ConfigSource
from kbroker.config.config_values import ConfigType, to_text
from kbroker.config.group_settings import GroupSettings, sound_settings
from kbroker.config.kafka_config import (
    ORIGIN_PROFILE,
    KafkaConfig,
    config_key,
    config_keys,
    dynamic_only_key,
    overriding_key,
)
from kbroker.config.topic_config import TopicConfig, sound_overrides


class ConfigSynonym(NamedTuple):
    """A setting whose value is used, or would be; `value` is None for a secret."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """One setting as DescribeConfigs answers it; `value` is None for a secret."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    is_sensitive: bool
    type: ConfigType
    synonyms: tuple[ConfigSynonym, ...]
    documentation: str | None


def describe_topic(config: KafkaConfig, overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """Every setting of a topic that has `overrides`, by name.

    Those that are not known, or cannot be used, are left out.
    """
    overrides, _ = sound_overrides(overrides)
    topic_config = TopicConfig.from_overrides(config, overrides)
    by_name = sorted(TopicConfig.keys, key=lambda key: key.name)
    return [_topic_entry(config, topic_config, overrides, key) for key in by_name]


def describe_group(config: KafkaConfig, own: Mapping[str, str]) -> list[ConfigEntry]:
    """Every setting that a group may have, with those of its own, by name. Those that are not
    known, or cannot be read, are left out.
    """
    sound = sound_settings(own)
    return [_group_entry(config, sound.get(key.name), key) for key in GroupSettings.keys]


def describe_broker(config: KafkaConfig) -> Iterator[ConfigEntry]:
    """Every setting of this broker, by name; unknown ones that were set count as secrets. Each is
    made as it is asked for, as for `describe_cluster_default`.
    """
    was_set = {*config.texts, *config.dynamic_default, *config.dynamic_broker}
    names = {key.name for key in config_keys() if not key.internal} | was_set
    return (_broker_entry(config, name) for name in sorted(names))


def describe_cluster_default(config: KafkaConfig) -> Iterator[ConfigEntry]:
    """The dynamic settings that hold for all brokers, by name."""
    return (_cluster_default_entry(config, name) for name in sorted(config.dynamic_default))


def select(entries: Iterable[ConfigEntry], names: Iterable[str] | None) -> Iterator[ConfigEntry]:
    """The entries of the names asked for; None or no names stand for all."""
    wanted = frozenset(names or ())
    return (entry for entry in entries if not wanted or entry.name in wanted)


def _topic_entry(
    config: KafkaConfig, topic_config: TopicConfig, overrides: Mapping[str, str], key: ConfigKey
) -> ConfigEntry:
    value = to_text(getattr(topic_config, key.attribute))
    synonyms: tuple[ConfigSynonym, ...] = ()
    if key.synonyms:
        synonyms = _synonyms(config, key.synonyms[0])
    if key.name in overrides:
        own = ConfigSynonym(key.name, value, ConfigSource.DYNAMIC_TOPIC_CONFIG)
        synonyms = (own, *synonyms)
    return ConfigEntry(
        name=key.name,
        value=value,
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
        read_only=False,
        is_sensitive=key.sensitive,
        type=key.type,
        synonyms=synonyms,
        documentation=key.doc,
    )


def _group_entry(config: KafkaConfig, own: str | None, key: ConfigKey) -> ConfigEntry:
    broker_setting = key.synonyms[0]
    value = to_text(config.value(broker_setting) if own is None else key.parse(own))
    synonyms = _synonyms(config, broker_setting)
    if own is not None:
        stored = ConfigSynonym(key.name, value, ConfigSource.DYNAMIC_GROUP_CONFIG)
        synonyms = (stored, *synonyms)
    return ConfigEntry(
        name=key.name,
        value=value,
        source=synonyms[0].source,
        read_only=False,
        is_sensitive=key.sensitive,
        type=key.type,
        synonyms=synonyms,
        documentation=key.doc,
    )


def _broker_entry(config: KafkaConfig, name: str) -> ConfigEntry:
    key = config_key(name)
    if key is None:
        return _entry(name, _text_set(config, name), _synonyms(config, name))
    return _entry(name, to_text(config.value(name)), _synonyms(config, name))


def _cluster_default_entry(config: KafkaConfig, name: str) -> ConfigEntry:
    of_cluster = tuple(
        synonym
        for synonym in _synonyms(config, name)
        if synonym.source is ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    )
    return _entry(name, config.dynamic_default[name], of_cluster)


def _entry(name: str, value: str | None, synonyms: tuple[ConfigSynonym, ...]) -> ConfigEntry:
    key = _key(name)
    sensitive = key is None or key.sensitive
    # Kafka says so of all that is set for one listener, also of what can be changed.
    read_only = key is None or key.dynamic == "read-only" or overriding_key(name) is not None
    return ConfigEntry(
        name=name,
        value=None if sensitive else value,
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
        read_only=read_only,
        is_sensitive=sensitive,
        type=ConfigType.UNKNOWN if key is None else key.type,
        synonyms=synonyms,
        documentation=None if key is None else key.doc,
    )


def _key(name: str) -> ConfigKey | None:
    return config_key(name) or dynamic_only_key(name) or overriding_key(name)


def _text_set(config: KafkaConfig, name: str) -> str | None:
    for texts in (config.dynamic_broker, config.dynamic_default, config.texts):
        if name in texts:
            return texts[name]
    return None


def _synonyms(config: KafkaConfig, name: str) -> tuple[ConfigSynonym, ...]:
    """The names that a setting falls back to with their values, strongest source first."""
    key = _key(name)
    names = key.synonyms if key is not None and key.synonyms else (name,)
    sensitive = key is None or key.sensitive
    defaults = _default_texts(names)
    sources = (
        (ConfigSource.DYNAMIC_BROKER_CONFIG, config.dynamic_broker),
        (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, config.dynamic_default),
        (ConfigSource.STATIC_BROKER_CONFIG, _static_texts(config, names, defaults)),
        (ConfigSource.DEFAULT_CONFIG, defaults),
    )
    found = [
        ConfigSynonym(other, None if sensitive else texts[other], source)
        for source, texts in sources
        for other in names
        if other in texts
    ]
    own = next((index for index, synonym in enumerate(found) if synonym.name == name), len(found))
    return tuple(found[own:])


def _static_texts(
    config: KafkaConfig, names: Iterable[str], defaults: Mapping[str, str]
) -> dict[str, str]:
    """Return what was set at the start; a profile that repeats a default has set nothing."""
    return {
        name: text
        for name in names
        if (text := config.texts.get(name)) is not None
        and (config.origins.get(name) != ORIGIN_PROFILE or text != defaults.get(name))
    }


def _default_texts(names: Iterable[str]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for name in names:
        key = config_key(name)
        text = to_text(key.default) if key is not None else None
        if text is not None:
            texts[name] = text
    return texts
