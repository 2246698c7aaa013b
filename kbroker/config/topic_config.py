"""TopicConfig: the settings of one topic: its overrides on top of the broker's values.

Law: names, bounds and refusals are those of Kafka 3.9's topic settings, so that existing settings
and tools work. If a topic does not override a setting, the first of the broker's settings in
`synonyms` that has a value counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Unpack, cast

from kbroker.config.config_checks import throttled_replicas
from kbroker.config.config_def import (
    ConfigGroup,
    ConfigKey,
    Facts,
    Long,
    config_group,
    define,
    replace,
)
from kbroker.config.config_values import MAX_LONG, ConfigValue
from kbroker.config.kafka_config import KafkaConfig, config_key
from kbroker.config.message_format import is_format_version_ignored, message_format
from kbroker.errors import ConfigError, ErrorCode, KafkaError


def follows(
    broker_setting: str,
    *,
    default: ConfigValue = None,
    doc: str | None = None,
    **facts: Unpack[Facts],
) -> Any:
    """Declare a setting that falls back to a broker's, and is like it but for what is said here."""
    key = config_key(broker_setting)
    assert key is not None
    same: Facts = {
        "at_least": key.at_least,
        "at_most": key.at_most,
        "check": key.check,
        "list_of": key.list_of,
        "one_of": key.one_of,
        "synonyms": key.synonyms or (broker_setting,),
    }
    return key.default if default is None else default, doc or key.doc, same | facts


@config_group
class TopicConfig(ConfigGroup):
    """The values in force for one topic."""

    cleanup_policy: tuple[str, ...] = follows("log.cleanup.policy")
    compression_gzip_level: int = follows("compression.gzip.level")
    compression_lz4_level: int = follows("compression.lz4.level")
    compression_type: str = follows("compression.type")
    compression_zstd_level: int = follows("compression.zstd.level")
    delete_retention_ms: Long = follows("log.cleaner.delete.retention.ms")
    file_delete_delay_ms: Long = follows("log.segment.delete.delay.ms")
    flush_messages: Long = follows(
        "log.flush.interval.messages", doc="Records before the log is synced to disk."
    )
    flush_ms: Long = follows(
        "log.flush.interval.ms",
        default=MAX_LONG,
        doc="Time before records are synced to disk.",
        at_least=0,
    )
    follower_replication_throttled_replicas: tuple[str, ...] = define(
        (),
        "Follower replicas under the replication throttle, partition:broker pairs or *.",
        check=throttled_replicas,
    )
    index_interval_bytes: int = follows("log.index.interval.bytes")
    leader_replication_throttled_replicas: tuple[str, ...] = define(
        (),
        "Leader replicas under the replication throttle, partition:broker pairs or *.",
        check=throttled_replicas,
    )
    local_retention_bytes: Long = follows(
        "log.local.retention.bytes",
        doc="Local size of a topic in remote storage; -2 follows retention.bytes.",
        support="not yet",
    )
    local_retention_ms: Long = follows(
        "log.local.retention.ms",
        doc="Local retention of a topic in remote storage; -2 follows retention.ms.",
        support="not yet",
    )
    max_compaction_lag_ms: Long = follows("log.cleaner.max.compaction.lag.ms")
    max_message_bytes: int = follows("message.max.bytes")
    message_downconversion_enable: bool = follows(
        "log.message.downconversion.enable", importance="low"
    )
    message_format_version: str = follows("log.message.format.version")
    message_timestamp_after_max_ms: Long = follows("log.message.timestamp.after.max.ms")
    message_timestamp_before_max_ms: Long = follows("log.message.timestamp.before.max.ms")
    message_timestamp_difference_max_ms: Long = follows("log.message.timestamp.difference.max.ms")
    message_timestamp_type: str = follows("log.message.timestamp.type")
    min_cleanable_dirty_ratio: float = follows(
        "log.cleaner.min.cleanable.ratio",
        doc="Share of uncleaned bytes from which the log is cleaned.",
    )
    min_compaction_lag_ms: Long = follows("log.cleaner.min.compaction.lag.ms")
    min_insync_replicas: int = follows("min.insync.replicas")
    preallocate: bool = follows(
        "log.preallocate",
        doc="Reserve a segment's disk space when it is created.",
        support="not yet",
    )
    remote_log_copy_disable: bool = define(
        False, "Stop copying segments to remote storage.", support="not yet"
    )
    remote_log_delete_on_disable: bool = define(
        False, "Delete remote segments when remote storage is switched off.", support="not yet"
    )
    remote_storage_enable: bool = define(
        False, "Keep segments in remote storage as well.", support="not yet"
    )
    retention_bytes: Long = follows("log.retention.bytes")
    retention_ms: Long = follows(
        "log.retention.ms",
        default=604_800_000,
        doc="Delete segments older than this; -1 keeps them.",
        at_least=-1,
    )
    segment_bytes: int = follows("log.segment.bytes")
    segment_index_bytes: int = follows("log.index.size.max.bytes")
    segment_jitter_ms: Long = follows("log.roll.jitter.ms", default=0, at_least=0)
    segment_ms: Long = follows(
        "log.roll.ms", default=604_800_000, doc="Roll a new segment at this age.", at_least=1
    )
    unclean_leader_election_enable: bool = follows("unclean.leader.election.enable")

    @classmethod
    def from_overrides(cls, config: KafkaConfig, overrides: Mapping[str, str]) -> TopicConfig:
        """The topic's values over the broker's; raises ConfigError for a bad override.

        An override that is not known (a topic that came from elsewhere) is ignored.
        """
        values = broker_defaults(config)
        for name, text in overrides.items():
            key = topic_config_key(name)
            if key is not None:
                values[key.attribute] = key.parse(text)
        return cls(**values)  # type: ignore[arg-type]

    def with_format_in_force(self, inter_broker_protocol_version: str) -> TopicConfig:
        """The same settings, but without a message format version that is ignored."""
        if not is_format_version_ignored(inter_broker_protocol_version):
            return self
        return replace(self, message_format_version=_KEYS["message.format.version"].default)

    @property
    def message_format(self) -> int:
        """The format that records are stored in: 0, 1 or 2."""
        return message_format(self.message_format_version)

    @property
    def compression_level(self) -> int | None:
        """The level of the codec that `compression.type` names; None if it has none."""
        levels = {
            "gzip": self.compression_gzip_level,
            "lz4": self.compression_lz4_level,
            "zstd": self.compression_zstd_level,
        }
        return levels.get(self.compression_type)

    @property
    def is_compacted(self) -> bool:
        """True if the cleanup policy contains `compact`."""
        return "compact" in self.cleanup_policy

    @property
    def is_deleted(self) -> bool:
        """True if the cleanup policy contains `delete`, so that retention applies."""
        return "delete" in self.cleanup_policy

    def segment_ms_effective(self) -> int:
        """Age at which a segment rolls: early enough for max.compaction.lag.ms (KIP-354)."""
        if self.is_compacted:
            return min(self.segment_ms, self.max_compaction_lag_ms)
        return self.segment_ms

    def timestamp_before_max_ms_effective(self) -> int:
        """How far behind a record's time may lie.

        Falls back to the setting for both ways (KIP-937).
        """
        if self.message_timestamp_before_max_ms != MAX_LONG:
            return self.message_timestamp_before_max_ms
        return self.message_timestamp_difference_max_ms

    def timestamp_after_max_ms_effective(self) -> int:
        """How far ahead a record's time may lie.

        Falls back to the setting for both ways (KIP-937).
        """
        if self.message_timestamp_after_max_ms != MAX_LONG:
            return self.message_timestamp_after_max_ms
        return self.message_timestamp_difference_max_ms


_KEYS = {key.name: key for key in TopicConfig.keys}

# Broker settings that come in several units: the group's method already picks the one that counts.
_EFFECTIVE = {
    "log.retention.ms": "log_retention_ms_effective",
    "log.roll.ms": "log_roll_ms_effective",
    "log.roll.jitter.ms": "log_roll_jitter_ms_effective",
    "log.flush.interval.ms": "log_flush_interval_ms_effective",
}


# Of a topic from elsewhere whose settings are not known: nothing of it is deleted or compacted.
KEEP_ALL: Final = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}


def topic_config_key(name: str) -> ConfigKey | None:
    """The declaration of a topic setting; None for a name that is not known."""
    return _KEYS.get(name)


def broker_defaults(config: KafkaConfig) -> dict[str, ConfigValue]:
    """Return the values that a topic without overrides gets from the broker, by attribute."""
    values: dict[str, ConfigValue] = {}
    for key in TopicConfig.keys:
        if not key.synonyms:
            continue
        first = key.synonyms[0]
        if first in _EFFECTIVE:
            values[key.attribute] = cast("int", getattr(config.log, _EFFECTIVE[first])())
        else:
            values[key.attribute] = config.value(first)
    return values


def sound_overrides(
    overrides: Mapping[str, str],
) -> tuple[Mapping[str, str], list[ConfigError]]:
    """Split overrides into those that can be used, and what is wrong with the others. These were
    stored by another version, another broker or by hand, and must not keep the topic from being
    served.
    """
    wrong: dict[str, ConfigError] = {}
    for name, text in overrides.items():
        key = _KEYS.get(name)
        try:
            if key is not None:
                key.parse(text)
        except ConfigError as error:
            wrong[name] = error
    if not wrong:
        return overrides, []
    sound = {name: text for name, text in overrides.items() if name not in wrong}
    return sound, list(wrong.values())


def usable_overrides(overrides: Mapping[str, str]) -> dict[str, str]:
    """Of the settings that a topic had elsewhere, those that are known here and sound."""
    known = {name: text for name, text in overrides.items() if name in _KEYS}
    return dict(sound_overrides(known)[0])


def for_one_replica(overrides: Mapping[str, str]) -> dict[str, str]:
    """Sound overrides for a topic that has one replica from now on: more in-sync ones than that
    would let nothing be written with acks=all.
    """
    few = {"min.insync.replicas": "1"}
    too_many = int(overrides.get("min.insync.replicas", "1")) > 1
    return {**overrides, **few} if too_many else dict(overrides)


def validate_overrides(overrides: Mapping[str, str | None]) -> None:
    """Raises KafkaError INVALID_CONFIG, with Kafka's sentence, for the first wrong override."""
    values: dict[str, ConfigValue] = {}
    nulls = [name for name, text in overrides.items() if text is None]
    if nulls:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Null value not supported for topic configs: {','.join(nulls)}",
        )
    for name in overrides:
        if name not in _KEYS:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
    try:
        for name, text in overrides.items():
            values[name] = _KEYS[name].parse(text or "")
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
    _validate_compaction_lags(values)
    _validate_remote_storage(values)


def _validate_compaction_lags(values: Mapping[str, ConfigValue]) -> None:
    lowest = cast(
        "int", values.get("min.compaction.lag.ms", _KEYS["min.compaction.lag.ms"].default)
    )
    highest = cast(
        "int", values.get("max.compaction.lag.ms", _KEYS["max.compaction.lag.ms"].default)
    )
    if lowest > highest:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"conflict topic config setting min.compaction.lag.ms ({lowest})"
            f" > max.compaction.lag.ms ({highest})",
        )


def _validate_remote_storage(values: Mapping[str, ConfigValue]) -> None:
    """Refuse it, as a broker without remote.log.storage.system.enable does."""
    if values.get("remote.log.copy.disable") or values.get("remote.log.delete.on.disable"):
        message = (
            "It is invalid to set `remote.log.delete.on.disable` or `remote.log.copy.disable` "
            "under Zookeeper's mode."
        )
        raise KafkaError(ErrorCode.INVALID_CONFIG, message)
    if values.get("remote.storage.enable"):
        message = (
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
        raise KafkaError(ErrorCode.INVALID_CONFIG, message)
