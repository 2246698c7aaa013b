"""kbroker's own settings: what Apache Kafka has no name for. Their names start with `kbroker.`."""

from __future__ import annotations

from kbroker.config.config_def import ConfigGroup, Password, config_group, define
from kbroker.config.http_addresses import check_http_addresses
from kbroker.errors import ConfigError


def check_login(name: str, text: str) -> None:
    """Raises ConfigError, without the text, for other than NAME:PASSWORD."""
    user, _, password = text.partition(":")
    if not user or not password:
        raise ConfigError(f"{name} is not NAME:PASSWORD")


@config_group
class KbrokerConfig(ConfigGroup):
    """Settings that Apache Kafka does not have."""

    kbroker_profile: str = define(
        "dev",
        "Set of defaults to start from: dev for your own machine, prod for Kafka's defaults.",
        one_of=("dev", "prod"),
        importance="high",
    )
    kbroker_record_validation: str = define(
        "full",
        "How far a produced batch is checked: every record in it, as Kafka does (full), or its "
        "header, CRC and last record.",
        one_of=("header", "full"),
    )
    kbroker_flush: str = define(
        "never",
        "Which answers wait for the disk: none (never, as in Kafka), acks=all of fewer than two "
        "in-sync replicas (acks-all), or every one (always).",
        one_of=("never", "acks-all", "always"),
        importance="high",
    )
    kbroker_advertise: str | None = define(
        None,
        "HOST:PORT given to every client, no matter which address it connected to; for the first "
        "listener.",
    )
    kbroker_open_listeners: bool = define(
        False,
        "Listeners that other machines reach may let in everybody: a start does not warn of them, "
        "and obeys --listen with such an address.",
    )
    kbroker_first_user: Password | None = define(
        None,
        "NAME:PASSWORD of a user whom a new cluster gets once, for SCRAM-SHA-256 and -512, if its "
        "brokers ask for logins.",
        check=check_login,
    )
    kbroker_quorum: str = define(
        "refuse",
        "What a broker does whose KRaft settings speak of other nodes, as there is no quorum here: "
        "it does not start (refuse), or is a cluster of its own (alone).",
        one_of=("refuse", "alone"),
    )
    kbroker_cleaner: str = define(
        "process",
        "Where compacted logs are cleaned: in a separate process, which does not slow the "
        "broker's answers, or on a thread of the broker.",
        one_of=("process", "thread"),
        importance="low",
    )
    kbroker_loop: str = define(
        "auto",
        "Event loop: uvloop if it is installed (auto), uvloop or asyncio.",
        one_of=("auto", "uvloop", "asyncio"),
        importance="low",
    )
    kbroker_inter_broker_listeners: tuple[str, ...] = define(
        (),
        "Further listeners on which other brokers are heard, while those of a cluster change "
        "inter.broker.listener.name one by one.",
    )
    kbroker_oauthbearer_unsecured: bool = define(
        False,
        "Take OAUTHBEARER tokens that nobody has signed, on listeners that only this machine "
        "reaches: anybody there is who they say.",
    )
    kbroker_slow_request_ms: int = define(
        -1,
        "Log requests that took longer to answer, beyond what their client asked to wait; -1: "
        "none.",
        at_least=-1,
    )
    kbroker_metrics_partitions: int = define(
        20_000,
        "Most partitions of which /metrics shows each by itself; -1 for all.",
        at_least=-1,
    )
    kbroker_http_listeners: tuple[str, ...] = define(
        (),
        "HOST:PORT, separated by commas, where the broker answers HTTP: health, metrics, its "
        "console; none if empty.",
        check=check_http_addresses,
    )
    kbroker_http_hosts: tuple[str, ...] = define(
        (),
        "Names by which HTTP requests may call this broker, besides its addresses and localhost.",
    )
    kbroker_console_read_only: bool = define(
        False, "The console at the HTTP address changes nothing."
    )
    kbroker_console_messages: bool = define(
        True, "The console at the HTTP address shows what is in messages."
    )
    kbroker_http_token: Password | None = define(
        None,
        "Token of HTTP requests, as bearer or as a browser's password; a must if other machines "
        "reach the listener, unless it asks for users by TLS.",
    )
    kbroker_http_token_file: str | None = define(
        None,
        "File whose first line is that token; read at the start.",
    )
    kbroker_zookeeper_jaas_config: Password | None = define(
        None,
        "Login at ZooKeeper by DIGEST-MD5, as the section Client of a JAAS file has it: "
        "DigestLoginModule with username and password.",
    )
    kbroker_zookeeper_digest: Password | None = define(
        None,
        "USER:PASSWORD of a login at ZooKeeper by its scheme digest, which any ZooKeeper takes.",
    )
