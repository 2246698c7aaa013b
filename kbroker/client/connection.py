"""An admin client, and the client library's errors as one sentence and an exit code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from kbroker.client.addresses import addresses_of, cannot_connect, check_reachable
from kbroker.client.bootstrap import settings_of
from kbroker.client.client_error import ClientError, sentence_of
from kbroker.client.connection_settings import CLIENT_ID, UNSECURED, ConnectionSettings
from kbroker.client.exit_code import ExitCode
from kbroker.client.link_refusals import unanswered
from kbroker.client.patient_client import PatientClient, is_unsent, repeated
from kbroker.errors import Trouble

if TYPE_CHECKING:
    from kafka.admin import KafkaAdminClient

__all__ = [
    "ClientError",
    "addresses_of",
    "admin_client",
    "cannot_connect",
    "check_admitted",
    "check_reachable",
    "client_errors",
    "client_options",
    "sentence_of",
]

_BOOTSTRAP_S = 5.0


@contextmanager
def admin_client(bootstrap: str) -> Iterator[KafkaAdminClient]:
    """An admin client that is closed afterwards; client errors become sentences."""
    from kafka.admin import KafkaAdminClient  # 130 ms that `--help` does not pay

    def connect() -> KafkaAdminClient:
        return KafkaAdminClient(
            **{"client_id": CLIENT_ID, "bootstrap_timeout_ms": round(_BOOTSTRAP_S * 1_000)}
            | client_options(bootstrap)
        )

    check_admitted(bootstrap)
    with client_errors(bootstrap):
        client = repeated(connect)
        try:
            yield cast("KafkaAdminClient", PatientClient(client))
        finally:
            client.close()


def client_options(bootstrap: str) -> dict[str, Any]:
    """Return the options for a kafka-python client of a cluster. Raises ClientError."""
    settings = settings_of(bootstrap)
    found: dict[str, Any] = {"bootstrap_servers": str(bootstrap)}
    if settings.client_id is not None:
        found["client_id"] = settings.client_id
    if settings.request_timeout_s is not None:
        found["request_timeout_ms"] = round(settings.request_timeout_s * 1_000)
    if settings.connect_timeout_s is not None:
        found["socket_connection_setup_timeout_ms"] = round(settings.connect_timeout_s * 1_000)
    return found | _security_options(settings)


def _security_options(settings: ConnectionSettings) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if settings.protocol != UNSECURED.protocol:
        found["security_protocol"] = settings.protocol
    if settings.login is not None:
        found["sasl_mechanism"] = settings.login.mechanism
        found["sasl_plain_username"] = settings.login.username
        found["sasl_plain_password"] = settings.login.password
    if settings.tls is not None:
        from kbroker.client.tls import tls_context  # most commands need no ssl

        found["ssl_context"] = tls_context(settings.tls)
    return found


def check_admitted(bootstrap: str) -> None:
    """Fail with the reason where no broker lets us in: the client library would try again for
    seconds, and not say why. Raises ClientError.
    """
    from kbroker.client.cluster_links import ClusterLinks  # protocol and codec take a while

    ClusterLinks(bootstrap).close()


@contextmanager
def client_errors(bootstrap: str) -> Iterator[None]:
    """Turn the client library's exceptions into one sentence and an exit code."""
    import logging

    check_reachable(bootstrap)
    from kafka import errors

    logging.getLogger("kafka").setLevel(logging.CRITICAL)  # its retries are not news for a person
    try:
        yield
    except errors.KafkaConnectionError as error:
        if is_unsent(error):
            raise _behind(bootstrap, str(error)) from error
        raise cannot_connect(bootstrap, "no Kafka broker answers there") from error
    except errors.KafkaTimeoutError as error:
        if "bootstrap" in str(error):
            raise cannot_connect(bootstrap, "no broker answered in time") from error
        raise unanswered(bootstrap, error) from error
    except errors.NodeNotReadyError as error:
        raise _unready(bootstrap, error) from error
    except errors.KafkaError as error:
        raise ClientError(sentence_of(error)) from error
    except ValueError as error:
        raise ClientError(f"{error}", ExitCode.USAGE) from error
    except RuntimeError as error:
        if "active controller" not in str(error):
            raise
        raise _no_controller(bootstrap) from error


def _behind(bootstrap: str, reason: str) -> ClientError:
    return ClientError(
        f"{bootstrap} names another broker that cannot be reached ({reason}): it has just "
        "stopped, or the address it advertises cannot be reached from here",
        ExitCode.CANNOT_CONNECT,
        Trouble.ADVERTISED_ADDRESS,
    )


def _unready(bootstrap: str, error: Exception) -> ClientError:
    """`error` names the broker that the library has just tried, or the controller."""
    (name,) = error.args or ("",)
    if name == "controller":
        return _no_controller(bootstrap)
    broker = f"broker {name} takes no" if isinstance(name, int) else "no broker takes a"
    return _behind(bootstrap, f"{broker} connection")


def _no_controller(bootstrap: str) -> ClientError:
    return ClientError(
        f"the cluster of {bootstrap} has no controller now: check that its brokers reach "
        "its ZooKeeper, and try again",
        trouble=Trouble.NO_CONTROLLER,
    )
