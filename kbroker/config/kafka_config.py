"""KafkaConfig: every group of settings of one broker, and where each value came from.

Law: a KafkaConfig never changes, so all its readers see settings that fit together; dynamic
settings make a new one (`with_dynamic`). A component receives its group, not all of this, so that
its constructor shows what it depends on. Order: defaults < profile < properties file < environment
< override < dynamic settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import cast

from kbroker.config.config_def import ConfigGroup, ConfigKey
from kbroker.config.config_values import ConfigType, ConfigValue, invalid_value
from kbroker.config.consumer_group_config import ConsumerGroupConfig
from kbroker.config.foreign_settings import (
    KAFKA_4_SETTINGS,
    PLUGIN_PREFIXES,
    PLUGIN_SETTINGS,
    PROVIDERS,
)
from kbroker.config.group_config import GroupConfig
from kbroker.config.http_addresses import HTTP_LISTENERS, parse_http_addresses
from kbroker.config.kbroker_config import KbrokerConfig
from kbroker.config.listener_overrides import (
    PREFIX,
    listener_names,
    listener_prefix,
    overridden,
    override,
    parse_overrides,
    without_effect,
)
from kbroker.config.listeners import parse_end_points, parse_security_protocol_map
from kbroker.config.log_config import LogConfig
from kbroker.config.message_format import ignored_format_warning
from kbroker.config.profiles import PROFILES
from kbroker.config.quorum_config import QuorumConfig
from kbroker.config.quota_config import QuotaConfig
from kbroker.config.replication_config import ReplicationConfig
from kbroker.config.sasl_config import SaslConfig
from kbroker.config.security_config import SecurityConfig
from kbroker.config.server_config import ServerConfig
from kbroker.config.share_group_config import ShareGroupConfig
from kbroker.config.socket_server_config import SocketServerConfig
from kbroker.config.ssl_config import SslConfig
from kbroker.config.transaction_config import TransactionConfig
from kbroker.config.unserved_settings import UNSERVED_SETTINGS
from kbroker.config.zk_config import ZkConfig
from kbroker.errors import ConfigError
from kbroker.model import WITH_TLS, EndPoint
from kbroker.near_names import did_you_mean

# Where a value came from, weakest first.
ORIGIN_DEFAULT = "default"
ORIGIN_PROFILE = "profile"
ORIGIN_FILE = "file"
ORIGIN_ENVIRONMENT = "environment"
ORIGIN_OVERRIDE = "override"
ORIGIN_DYNAMIC_DEFAULT = "dynamic (cluster)"
ORIGIN_DYNAMIC_BROKER = "dynamic (broker)"

GROUPS: dict[str, type[ConfigGroup]] = {
    "socket_server": SocketServerConfig,
    "server": ServerConfig,
    "log": LogConfig,
    "replication": ReplicationConfig,
    "zk": ZkConfig,
    "group": GroupConfig,
    "consumer_group": ConsumerGroupConfig,
    "share_group": ShareGroupConfig,
    "transaction": TransactionConfig,
    "quota": QuotaConfig,
    "ssl": SslConfig,
    "sasl": SaslConfig,
    "security": SecurityConfig,
    "quorum": QuorumConfig,
    "kbroker": KbrokerConfig,
}

# Set on a broker by IncrementalAlterConfigs only; they are not static settings (KIP-73).
DYNAMIC_ONLY = (
    "follower.replication.throttled.rate",
    "leader.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
)

KEYS_BY_GROUP: Mapping[str, tuple[ConfigKey, ...]] = {
    **{
        group: (*group_class.keys, *UNSERVED_SETTINGS.get(group, ()))
        for group, group_class in GROUPS.items()
    },
    **{group: keys for group, keys in UNSERVED_SETTINGS.items() if group not in GROUPS},
}
_KEYS = {key.name: key for keys in KEYS_BY_GROUP.values() for key in keys}
_GROUP_OF = {key.name: group for group, its_class in GROUPS.items() for key in its_class.keys}


def config_key(name: str) -> ConfigKey | None:
    """The declaration of a broker setting; None for a name that is not known."""
    return _KEYS.get(name)


def overriding_key(name: str) -> ConfigKey | None:
    """The declaration of a setting of one listener, whether it is there or not; None for a name
    that is none, or stands for a setting that is not known.
    """
    return overridden(name, _KEYS)


def key_among(name: str, settings: Mapping[str, str]) -> ConfigKey | None:
    """The declaration that the text of `name` is read by at a start with these settings; None for a
    name that is not read, such as that of a setting of a listener that is not there.
    """
    own = config_key(name)
    if own is not None or not name.startswith(PREFIX):
        return own
    listeners = settings.get("listeners", cast("str", _KEYS["listeners"].default))
    found = override(name, listener_names(listeners), _KEYS)
    return None if found is None else found.key


def config_keys() -> Iterator[ConfigKey]:
    return iter(_KEYS.values())


class KafkaConfig:
    """All settings of a broker.

    `texts` holds what was set, as text; the groups hold the values in force.
    """

    __slots__ = (
        *GROUPS,
        "_of_listeners",
        "_unserved",
        "dynamic_broker",
        "dynamic_default",
        "origins",
        "texts",
    )

    socket_server: SocketServerConfig
    server: ServerConfig
    log: LogConfig
    replication: ReplicationConfig
    zk: ZkConfig
    group: GroupConfig
    consumer_group: ConsumerGroupConfig
    share_group: ShareGroupConfig
    transaction: TransactionConfig
    quota: QuotaConfig
    ssl: SslConfig
    sasl: SaslConfig
    security: SecurityConfig
    quorum: QuorumConfig
    kbroker: KbrokerConfig

    def __init__(
        self,
        texts: Mapping[str, str] | None = None,
        origins: Mapping[str, str] | None = None,
        dynamic_default: Mapping[str, str] | None = None,
        dynamic_broker: Mapping[str, str] | None = None,
    ) -> None:
        """Settings by name as text: those set at start, then the dynamic ones of the cluster and of
        this broker.
        """
        self.texts = _with_both_ids(texts or {})
        self.origins = _with_both_ids(origins or {})
        self.dynamic_default = dict(dynamic_default or {})
        self.dynamic_broker = dict(dynamic_broker or {})
        merged = {**self.texts, **self.dynamic_default, **self.dynamic_broker}
        for group, group_class in GROUPS.items():
            values = {
                key.attribute: key.parse(merged[key.name])
                for key in group_class.keys
                if key.name in merged
            }
            object.__setattr__(self, group, group_class(**values))
        self._unserved = {
            key.name: key.parse(merged[key.name])
            for keys in UNSERVED_SETTINGS.values()
            for key in keys
            if key.name in merged
        }
        self._of_listeners = parse_overrides(merged, self.socket_server.listeners, _KEYS)

    @classmethod
    def from_values(
        cls, values: Mapping[str, str], origins: Mapping[str, str] | None = None
    ) -> tuple[KafkaConfig, list[str]]:
        """Settings from texts by name, and warnings for names that are unknown or have no effect.

        Raises ConfigError with name, value and bound for a value that cannot be used.
        """
        config = cls(values, origins or dict.fromkeys(values, ORIGIN_FILE))
        config.validate()
        return config, config.warnings()

    @classmethod
    def for_profile(
        cls, profile: str = "dev", values: Mapping[str, str] | None = None
    ) -> KafkaConfig:
        """Settings of a profile with some values on top."""
        base = {**PROFILES[profile], "kbroker.profile": profile}
        origins = {
            **dict.fromkeys(base, ORIGIN_PROFILE),
            **dict.fromkeys(values or {}, ORIGIN_OVERRIDE),
        }
        return cls({**base, **(values or {})}, origins)

    def with_dynamic(self, cluster: Mapping[str, str], broker: Mapping[str, str]) -> KafkaConfig:
        """The same start settings under other dynamic settings; raises ConfigError."""
        config = KafkaConfig(self.texts, self.origins, cluster, broker)
        config.validate()
        return config

    def value(self, name: str) -> ConfigValue:
        """The value in force of a known setting; KeyError for another name."""
        key, group = _KEYS[name], _GROUP_OF.get(name)
        if group is None:
            return self._unserved.get(name, key.default)
        return cast("ConfigValue", getattr(getattr(self, group), key.attribute))

    def listener_setting(
        self, name: str, listener: str, mechanism: str | None = None
    ) -> tuple[str, ConfigValue]:
        """The value of a known setting for one listener, or for one SASL mechanism of it, and the
        whole name that it was set by: what is set for the mechanism, else for the listener, else
        for all.
        """
        for inner in (mechanism, None):
            own = f"{listener_prefix(listener, inner)}{name}"
            if own in self._of_listeners:
                return own, self._of_listeners[own]
        return name, self.value(name)

    def origin(self, name: str) -> str:
        """Where the value in force came from."""
        if name in self.dynamic_broker:
            return ORIGIN_DYNAMIC_BROKER
        if name in self.dynamic_default:
            return ORIGIN_DYNAMIC_DEFAULT
        return self.origins.get(name, ORIGIN_DEFAULT)

    def end_points(self) -> tuple[EndPoint, ...]:
        """The addresses to listen on. A KRaft controller's are left out, as there is none here."""
        return self._end_points("listeners", self.socket_server.listeners)

    def left_out_listeners(self) -> list[str]:
        """The names of listeners that are not served: those of a KRaft controller."""
        texts = (self.socket_server.listeners, self.socket_server.advertised_listeners)
        named = {
            part.partition("://")[0].strip()
            for part in ",".join(filter(None, texts)).upper().split(",")
        }
        return [each for each in self.quorum.listeners() if each in named]

    def advertised_end_points(self) -> tuple[EndPoint, ...]:
        """The addresses given to clients: advertised.listeners, or those listened on."""
        advertised = self.socket_server.advertised_listeners
        if advertised is None:
            return self.end_points()
        return self._end_points("advertised.listeners", advertised)

    def http_end_points(self) -> tuple[EndPoint, ...]:
        """The addresses of the HTTP server, by TLS if a listener has that. A broker that takes any
        port, as those of tests do, has none unless it is asked for.
        """
        if not self.is_http_asked_for() and not all(e.port for e in self.end_points()):
            return ()
        has_tls = any(each.security_protocol in WITH_TLS for each in self.end_points())
        return tuple(
            replace(each, security_protocol="SSL" if has_tls else "PLAINTEXT")
            for each in parse_http_addresses(HTTP_LISTENERS, self.kbroker.kbroker_http_listeners)
        )

    def with_http_at(self, end_points: Sequence[EndPoint]) -> KafkaConfig:
        """The same settings, with the addresses that the HTTP server has got."""
        texts = ",".join(str(each).partition("://")[2] for each in end_points)
        if not end_points or texts == ",".join(self.kbroker.kbroker_http_listeners):
            return self
        return KafkaConfig(
            {**self.texts, HTTP_LISTENERS: texts},
            self.origins,
            self.dynamic_default,
            self.dynamic_broker,
        )

    def is_http_asked_for(self) -> bool:
        """True if somebody has named the addresses; those of the profile may become others."""
        return self.origin(HTTP_LISTENERS) != ORIGIN_PROFILE

    @property
    def is_for_development(self) -> bool:
        """True for a broker that is started for a while, by one person or by tests."""
        return self.kbroker.kbroker_profile == "dev"

    def advertises_per_connection(self) -> bool:
        """True if each client is given the address that it connected to."""
        return (
            self.is_for_development
            and self.socket_server.advertised_listeners is None
            and self.kbroker.kbroker_advertise is None
        )

    def inter_broker_listener_name(self) -> str:
        """The listener that brokers use among themselves."""
        named = self.socket_server.inter_broker_listener_name
        return named.upper() if named else self.security.security_inter_broker_protocol

    def control_plane_listener_name(self) -> str | None:
        """The listener of the controller's requests, if they have one of their own."""
        named = self.socket_server.control_plane_listener_name
        return named.upper() if named else None

    def listeners_of_brokers(self) -> tuple[str, ...]:
        """The names of listeners at which this broker connects to others."""
        names = (self.inter_broker_listener_name(), self.control_plane_listener_name())
        return tuple(dict.fromkeys(filter(None, names)))

    def other_listeners_of_brokers(self) -> tuple[str, ...]:
        """The names of further listeners at which other brokers are heard."""
        named = (name.upper() for name in self.kbroker.kbroker_inter_broker_listeners)
        return tuple(filter(None, (self.control_plane_listener_name(), *named)))

    def validate(self) -> None:
        """Raises ConfigError for settings that do not fit together."""
        self.quorum.check()
        self.consumer_group.check()
        if not self.end_points():
            raise invalid_value(
                "listeners", self.socket_server.listeners, "at least one address is needed"
            )
        if self.kbroker.kbroker_profile == "prod" and "listeners" not in self.texts:
            raise ConfigError("listeners is not set: the prod profile needs explicit addresses")
        if self.kbroker.kbroker_profile == "prod" and not {"log.dirs", "log.dir"} & set(self.texts):
            raise ConfigError("log.dirs is not set: the prod profile needs a data directory")
        self._check_inter_broker()
        self._check_control_plane()
        self._check_early_start()
        names = {end_point.listener_name for end_point in self.end_points()}
        for end_point in self.advertised_end_points():
            if end_point.listener_name not in names:
                raise invalid_value(
                    "advertised.listeners", end_point, "listeners has no such listener"
                )
            # No client can connect to the address that stands for all of them.
            is_wildcard = end_point.host in ("0.0.0.0", "::")  # noqa: S104  refused, not bound
            if is_wildcard and not self.advertises_per_connection():
                raise invalid_value(
                    "advertised.listeners", end_point, "clients cannot connect to this address"
                )
        broker_id, node_id = self.server.broker_id, self.server.node_id
        if broker_id != node_id:
            raise invalid_value(
                "node.id", node_id, f"it must be the same as broker.id, {broker_id}"
            )
        self._check_data_directories()
        if not self.log.has_room_to_clean():
            raise invalid_value(
                "log.cleaner.dedupe.buffer.size",
                self.log.log_cleaner_dedupe_buffer_size,
                "it must be above 1 MiB for each of log.cleaner.threads",
            )

    def _check_data_directories(self) -> None:
        if not self.log.data_directories():
            name = "log.dir" if self.log.log_dirs is None else "log.dirs"
            raise invalid_value(name, self.value(name), "at least one directory is needed")

    def _check_inter_broker(self) -> None:
        listener, protocol = "inter.broker.listener.name", "security.inter.broker.protocol"
        if listener in self.texts and protocol in self.texts:
            raise ConfigError(f"{listener} and {protocol} are both set: remove one")
        names = [end_point.listener_name for end_point in self.advertised_end_points()]
        for other in self.kbroker.kbroker_inter_broker_listeners:
            if other.upper() not in names:
                raise invalid_value(
                    "kbroker.inter.broker.listeners", other, "it is not among advertised.listeners"
                )
        if listener in self.texts or protocol in self.texts or self.zk.zookeeper_connect:
            self.check_reached_by_brokers()

    def check_reached_by_brokers(self) -> None:
        """Raises ConfigError if other brokers would not find the listener that is theirs."""
        listener, protocol = "inter.broker.listener.name", "security.inter.broker.protocol"
        advertised = self.advertised_end_points()
        name = self.inter_broker_listener_name()
        names = [end_point.listener_name for end_point in advertised]
        # They reach a broker at its first listener if it has none of that name.
        is_plain = all(each.security_protocol == "PLAINTEXT" for each in advertised)
        if name in names or (is_plain and not {listener, protocol} & self.texts.keys()):
            return
        raise ConfigError(
            f"the listener of other brokers, {name}, is not among advertised.listeners: set "
            f"{listener} to one of {', '.join(names)}"
        )

    def _check_early_start(self) -> None:
        setting = "early.start.listeners"
        early = filter(None, map(str.strip, str(self.value(setting) or "").split(",")))
        for name in early:
            if name.upper() not in listener_names(self.socket_server.listeners):
                raise invalid_value(setting, name, "listeners has no such listener")

    def _check_control_plane(self) -> None:
        name = self.control_plane_listener_name()
        if name is None:
            return
        if name not in {end_point.listener_name for end_point in self.advertised_end_points()}:
            raise invalid_value(
                "control.plane.listener.name", name, "it is not among advertised.listeners"
            )
        if name == self.inter_broker_listener_name():
            raise invalid_value(
                "control.plane.listener.name", name, "this listener is for brokers only"
            )

    def warnings(self) -> list[str]:
        """One line for each name that was set but is unknown or without effect."""
        lines: list[str | None] = []
        for name in self.texts:
            key = config_key(name)
            if name.startswith(PROVIDERS):
                continue
            if name.startswith(PREFIX):
                listeners = self.socket_server.listeners
                lines.append(without_effect(name, listeners, _KEYS, KAFKA_4_SETTINGS))
            elif name in PLUGIN_SETTINGS:
                if not self.security.authorizer_class_name:
                    lines.append(f"{name} is set but has no effect without authorizer.class.name")
            elif key is None:
                lines.extend(_unknown_name(name))
            elif key.support == "not yet" and self.origins.get(name) != ORIGIN_PROFILE:
                lines.append(f"{name} is set but has no effect yet")
        ignored = ignored_format_warning(
            "log.message.format.version",
            self.log.log_message_format_version,
            self.server.inter_broker_protocol_version,
        )
        return [*filter(None, (*lines, ignored, self._quorum_warning()))]

    def _quorum_warning(self) -> str | None:
        if self.zk.zookeeper_connect:
            return self.quorum.warning("is one of the cluster at zookeeper.connect")
        if self.kbroker.kbroker_quorum == "alone":
            return self.quorum.warning("starts as a cluster of its own")
        return None  # it does not start

    def _end_points(self, name: str, text: str) -> tuple[EndPoint, ...]:
        protocols = parse_security_protocol_map(
            "listener.security.protocol.map", self.socket_server.listener_security_protocol_map
        )
        return parse_end_points(name, text, protocols, self.quorum.listeners())


def _with_both_ids(settings: Mapping[str, str]) -> dict[str, str]:
    """broker.id and node.id name the same thing: one that is set alone stands for the other too."""
    both = dict(settings)
    for name, other in (("broker.id", "node.id"), ("node.id", "broker.id")):
        if name in both:
            both.setdefault(other, both[name])
    return both


def _unknown_name(name: str) -> list[str]:
    if name.startswith(PLUGIN_PREFIXES):
        return [f"{name} is set but has no effect yet"]
    if name in KAFKA_4_SETTINGS:
        return [f"{name} is set but has no effect: it is a setting of Kafka 4"]
    return [f"unknown setting {name}{did_you_mean(name, _KEYS, shown=1)}"]


def dynamic_only_key(name: str) -> ConfigKey | None:
    """The declaration of a throttle that exists as a dynamic setting alone."""
    if name not in DYNAMIC_ONLY:
        return None
    doc = "Bytes per second that replication may use."
    return ConfigKey(name, ConfigType.LONG, None, doc, {"at_least": 0})
