"""TopicConfig: the settings of one topic: its overrides on top of the broker's values.

Law: names, bounds and refusals are those of Kafka 3.9's topic settings, so that existing settings
and tools work. Where a topic does not override a setting, the first of the broker's settings in
`synonyms` that has a value counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from kbroker.config.config_checks import gzip_level, kafka_version, throttled_replicas
from kbroker.config.config_def import ConfigGroup, ConfigKey, config_group, define, replace
from kbroker.config.config_values import MAX_LONG, ConfigType, ConfigValue
from kbroker.config.kafka_config import KafkaConfig
from kbroker.config.message_format import is_format_version_ignored, message_format
from kbroker.errors import ConfigError, ErrorCode, KafkaError


@config_group
class TopicConfig(ConfigGroup):
    """The values in force for one topic."""

    cleanup_policy: tuple[str, ...] = define(
        ("delete",),
        "What to do with old segments: delete, compact or both.",
        list_of=("compact", "delete"),
        synonyms=("log.cleanup.policy",),
    )
    compression_gzip_level: int = define(
        -1,
        "Level used when records are compressed with gzip here.",
        check=gzip_level,
        synonyms=("compression.gzip.level",),
    )
    compression_lz4_level: int = define(
        9,
        "Level used when records are compressed with lz4 here.",
        at_least=1,
        at_most=17,
        synonyms=("compression.lz4.level",),
    )
    compression_type: str = define(
        "producer",
        "Codec of stored records; producer keeps the producer's codec.",
        one_of=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        synonyms=("compression.type",),
    )
    compression_zstd_level: int = define(
        3,
        "Level used when records are compressed with zstd here.",
        at_least=-131_072,
        at_most=22,
        synonyms=("compression.zstd.level",),
    )
    delete_retention_ms: int = define(
        86_400_000,
        "How long delete markers stay in a compacted log.",
        type=ConfigType.LONG,
        at_least=0,
        synonyms=("log.cleaner.delete.retention.ms",),
    )
    file_delete_delay_ms: int = define(
        60_000,
        "Time between renaming a file to .deleted and its removal.",
        type=ConfigType.LONG,
        at_least=0,
        synonyms=("log.segment.delete.delay.ms",),
    )
    flush_messages: int = define(
        MAX_LONG,
        "Records before the log is synced to disk.",
        type=ConfigType.LONG,
        at_least=1,
        synonyms=("log.flush.interval.messages",),
    )
    flush_ms: int = define(
        MAX_LONG,
        "Time before records are synced to disk.",
        type=ConfigType.LONG,
        at_least=0,
        synonyms=("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    )
    follower_replication_throttled_replicas: tuple[str, ...] = define(
        (),
        "Follower replicas under the replication throttle, partition:broker pairs or *.",
        check=throttled_replicas,
    )
    index_interval_bytes: int = define(
        4096,
        "Log bytes between two index entries.",
        at_least=0,
        synonyms=("log.index.interval.bytes",),
    )
    leader_replication_throttled_replicas: tuple[str, ...] = define(
        (),
        "Leader replicas under the replication throttle, partition:broker pairs or *.",
        check=throttled_replicas,
    )
    local_retention_bytes: int = define(
        -2,
        "Local size of a topic in remote storage; -2 follows retention.bytes.",
        type=ConfigType.LONG,
        at_least=-2,
        synonyms=("log.local.retention.bytes",),
        support="not yet",
    )
    local_retention_ms: int = define(
        -2,
        "Local retention of a topic in remote storage; -2 follows retention.ms.",
        type=ConfigType.LONG,
        at_least=-2,
        synonyms=("log.local.retention.ms",),
        support="not yet",
    )
    max_compaction_lag_ms: int = define(
        MAX_LONG,
        "A record is open to compaction at latest after this.",
        type=ConfigType.LONG,
        at_least=1,
        synonyms=("log.cleaner.max.compaction.lag.ms",),
    )
    max_message_bytes: int = define(
        1_048_588, "Largest record batch accepted.", at_least=0, synonyms=("message.max.bytes",)
    )
    message_downconversion_enable: bool = define(
        True,
        "Convert records for clients of old formats.",
        importance="low",
        synonyms=("log.message.downconversion.enable",),
    )
    message_format_version: str = define(
        "3.0-IV1",
        "Format of stored records, below inter.broker.protocol.version 3.0.",
        check=kafka_version,
        synonyms=("log.message.format.version",),
    )
    message_timestamp_after_max_ms: int = define(
        MAX_LONG,
        "How far a record's time may be after the broker's.",
        type=ConfigType.LONG,
        at_least=0,
        synonyms=("log.message.timestamp.after.max.ms",),
    )
    message_timestamp_before_max_ms: int = define(
        MAX_LONG,
        "How far a record's time may be before the broker's.",
        type=ConfigType.LONG,
        at_least=0,
        synonyms=("log.message.timestamp.before.max.ms",),
    )
    message_timestamp_difference_max_ms: int = define(
        MAX_LONG,
        "Allowed distance of a record's time from the broker's, both ways.",
        type=ConfigType.LONG,
        at_least=0,
        synonyms=("log.message.timestamp.difference.max.ms",),
    )
    message_timestamp_type: str = define(
        "CreateTime",
        "Whose clock stamps records: CreateTime or LogAppendTime.",
        one_of=("CreateTime", "LogAppendTime"),
        synonyms=("log.message.timestamp.type",),
    )
    min_cleanable_dirty_ratio: float = define(
        0.5,
        "Share of uncleaned bytes from which the log is cleaned.",
        at_least=0,
        at_most=1,
        synonyms=("log.cleaner.min.cleanable.ratio",),
    )
    min_compaction_lag_ms: int = define(
        0,
        "A record stays uncompacted at least this long.",
        type=ConfigType.LONG,
        at_least=0,
        synonyms=("log.cleaner.min.compaction.lag.ms",),
    )
    min_insync_replicas: int = define(
        1,
        "In-sync replicas that acks=all needs at least.",
        at_least=1,
        synonyms=("min.insync.replicas",),
    )
    preallocate: bool = define(
        False,
        "Reserve a segment's disk space when it is created.",
        synonyms=("log.preallocate",),
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
    retention_bytes: int = define(
        -1,
        "Delete the oldest segments of a partition above this size; -1 for no limit.",
        type=ConfigType.LONG,
        synonyms=("log.retention.bytes",),
    )
    retention_ms: int = define(
        604_800_000,
        "Delete segments older than this; -1 keeps them.",
        type=ConfigType.LONG,
        at_least=-1,
        synonyms=("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    )
    segment_bytes: int = define(
        1_073_741_824,
        "Roll a new segment at this size.",
        at_least=14,
        synonyms=("log.segment.bytes",),
    )
    segment_index_bytes: int = define(
        10_485_760,
        "Largest size of an offset index file.",
        at_least=4,
        synonyms=("log.index.size.max.bytes",),
    )
    segment_jitter_ms: int = define(
        0,
        "Random part taken off the rolling age.",
        type=ConfigType.LONG,
        at_least=0,
        synonyms=("log.roll.jitter.ms", "log.roll.jitter.hours"),
    )
    segment_ms: int = define(
        604_800_000,
        "Roll a new segment at this age.",
        type=ConfigType.LONG,
        at_least=1,
        synonyms=("log.roll.ms", "log.roll.hours"),
    )
    unclean_leader_election_enable: bool = define(
        False,
        "Let a replica lead that is not in sync, at the price of records.",
        synonyms=("unclean.leader.election.enable",),
    )

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
        """The level of the codec that `compression.type` names; None where it has none."""
        levels = {
            "gzip": self.compression_gzip_level,
            "lz4": self.compression_lz4_level,
            "zstd": self.compression_zstd_level,
        }
        return levels.get(self.compression_type)

    @property
    def is_compacted(self) -> bool:
        """True where the cleanup policy holds `compact`."""
        return "compact" in self.cleanup_policy

    @property
    def is_deleted(self) -> bool:
        """True where the cleanup policy holds `delete`, so that retention applies."""
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
    """Those that can be used, and what is wrong with the others: they were stored by another
    version, another broker or by hand, and must not keep the topic from being served.
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
    """There is none, as in a broker without remote.log.storage.system.enable."""
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
