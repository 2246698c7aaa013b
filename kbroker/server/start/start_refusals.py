"""Refusals of a start whose settings are valid one by one."""

from __future__ import annotations

from collections.abc import Iterator

from kbroker.config.config_values import invalid_value
from kbroker.config.http_access import lets_in_everybody, login_listener, tls_listener
from kbroker.config.http_addresses import HTTP_LISTENERS, is_loopback
from kbroker.config.kafka_config import KafkaConfig
from kbroker.config.password_encoder import check_password_encoder
from kbroker.errors import ConfigError, Trouble
from kbroker.model import EndPoint
from kbroker.server.broker.broker_listeners import check_listener
from kbroker.server.broker.broker_peers import check_ways
from kbroker.server.broker.operators_code import check_quota_callback
from kbroker.server.membership.advertised_address import advertised_end_points
from kbroker.server.metadata_tree.broker_identity import check_not_reserved


def refusals_of(config: KafkaConfig, *, is_cluster: bool = False) -> Iterator[ConfigError]:
    """Yield an error for each reason, without a look at data, ports and ZooKeeper; files of
    certificates are read. `is_cluster`: the start is for several brokers of one cluster.
    """
    quorum = _refusal_of_quorum(config, is_cluster=is_cluster)
    if quorum is not None:
        yield ConfigError(quorum, Trouble.KRAFT)
    is_of_several = is_cluster or config.zk.zookeeper_connect
    for refuse in (*_REFUSE, *([check_ways] if is_of_several else [])):
        try:
            refuse(config)
        except ConfigError as error:
            yield error


def warnings_of(config: KafkaConfig) -> Iterator[str]:
    """Yield a line for each thing that a start obeys, but says."""
    found = open_end_points(config)
    if found:
        yield (
            f"whoever reaches {','.join(map(str, found))} can read and change everything; "
            "kbroker.open.listeners=true says that this is meant"
        )


def open_end_points(config: KafkaConfig) -> tuple[EndPoint, ...]:
    """The listeners that other machines reach and that let in everybody; none if that is meant."""
    if config.kbroker.kbroker_open_listeners:
        return ()
    return tuple(
        each
        for each in config.end_points()
        if not is_loopback(each.host) and lets_in_everybody(config, each)
    )


def _refusal_of_quorum(config: KafkaConfig, *, is_cluster: bool) -> str | None:
    is_answered = (
        is_cluster or config.zk.zookeeper_connect or config.kbroker.kbroker_quorum == "alone"
    )
    return None if is_answered else config.quorum.refusal()


def _refuse_listeners(config: KafkaConfig) -> None:
    for end_point in config.end_points():
        check_listener(config, end_point)


def _refuse_authorizer(config: KafkaConfig) -> None:
    if config.security.authorizer_class_name:
        # Brokers without one do without it.
        from kbroker.server.broker.broker_authorizer import check_authorizer

        check_authorizer(config)


def _refuse_addresses(config: KafkaConfig) -> None:
    advertised_end_points(config, config.end_points())


def _refuse_open_http(config: KafkaConfig) -> None:
    kbroker = config.kbroker
    if kbroker.kbroker_http_token and kbroker.kbroker_http_token_file:
        raise ConfigError("kbroker.http.token and kbroker.http.token.file exclude each other")
    if kbroker.kbroker_http_token or kbroker.kbroker_http_token_file:
        return
    for end_point in config.http_end_points():
        if not is_loopback(end_point.host) and not _is_closed(config):
            raise invalid_value(
                HTTP_LISTENERS,
                f"{end_point.host}:{end_point.port}",
                "other machines reach this address: set kbroker.http.token.file, have a listener "
                "with TLS and passwords, or listen on 127.0.0.1",
            )


def _is_closed(config: KafkaConfig) -> bool:
    return login_listener(config) is not None and tls_listener(config) is not None


def _refuse_password_encoder(config: KafkaConfig) -> None:
    check_password_encoder(config.security)


def _refuse_ensemble(config: KafkaConfig) -> None:
    connect = config.zk.zookeeper_connect
    if not connect:
        return
    # Only with an ensemble: kazoo's cost.
    from kbroker.config.zk_access import zk_access
    from kbroker.zk.ensemble.kazoo_tree import check_access, parse_connect

    try:
        parse_connect(connect)
    except ValueError as error:
        raise ConfigError(f"zookeeper.connect: {error}") from error
    check_not_reserved(config)
    check_access(zk_access(config))


_REFUSE = (
    _refuse_listeners, _refuse_authorizer, _refuse_addresses, _refuse_open_http, _refuse_ensemble,
    _refuse_password_encoder, check_quota_callback,
)  # fmt: skip
