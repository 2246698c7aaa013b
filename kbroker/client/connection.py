"""An admin client, and the client library's errors as one sentence and an exit code."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from kbroker.client.exit_code import ExitCode
from kbroker.client.patient_client import PatientClient, is_unsent, repeated
from kbroker.errors import ExplainedError, Trouble

if TYPE_CHECKING:
    from kafka.admin import KafkaAdminClient

OPTION = "--bootstrap"
_CONNECT_TIMEOUT_S = 5
_MAX_PORT = 65_535


class ClientError(ExplainedError):
    """One sentence for a person; `code` is the exit code of the contract."""

    def __init__(
        self,
        sentence: str,
        code: ExitCode = ExitCode.ITEM_FAILED,
        trouble: Trouble | None = None,
    ) -> None:
        super().__init__(sentence, trouble)
        self.sentence = sentence
        self.code = code


@contextmanager
def admin_client(
    bootstrap: str, options: Mapping[str, Any] | None = None
) -> Iterator[KafkaAdminClient]:
    """An admin client that is closed afterwards; client errors become sentences. `options` are
    those of kafka-python, such as `security_protocol`.
    """
    from kafka.admin import KafkaAdminClient  # 130 ms that `--help` does not pay

    def connect() -> KafkaAdminClient:
        return KafkaAdminClient(
            bootstrap_servers=bootstrap,
            client_id="kbroker-cli",
            bootstrap_timeout_ms=5_000,
            **(options or {}),
        )

    with client_errors(bootstrap):
        client = repeated(connect)
        try:
            yield cast("KafkaAdminClient", PatientClient(client))
        finally:
            client.close()


@contextmanager
def client_errors(bootstrap: str) -> Iterator[None]:
    """Turn the client library's exceptions into one sentence and an exit code."""
    import logging

    check_reachable(bootstrap)
    from kafka import errors

    logging.getLogger("kafka").setLevel(logging.CRITICAL)  # its retries are no news for a person
    try:
        yield
    except errors.KafkaConnectionError as error:
        if is_unsent(error):
            raise ClientError(
                f"{bootstrap} names another broker that cannot be reached ({error}): it has just "
                "stopped, or the address it gives to clients is of no use here",
                ExitCode.CANNOT_CONNECT,
                Trouble.ADVERTISED_ADDRESS,
            ) from error
        raise cannot_connect(bootstrap, "no Kafka broker answers there") from error
    except errors.KafkaTimeoutError as error:
        if "bootstrap" in str(error):
            reason = "what listens there is no Kafka broker, or wants TLS, SASL or another password"
            raise cannot_connect(bootstrap, reason) from error
        raise ClientError(
            f"{bootstrap} did not answer in time: {error}", ExitCode.TIMEOUT, Trouble.NO_ANSWER
        ) from error
    except errors.KafkaError as error:
        raise ClientError(sentence_of(error)) from error
    except ValueError as error:
        raise ClientError(f"{error}", ExitCode.USAGE) from error
    except RuntimeError as error:
        if "active controller" not in str(error):
            raise
        raise ClientError(
            f"the cluster of {bootstrap} has no controller now: see that its brokers reach its "
            "ZooKeeper, and try again",
            trouble=Trouble.NO_CONTROLLER,
        ) from error


def check_reachable(bootstrap: str, name: str = OPTION) -> None:
    """Fail at once where nobody listens: the client library would try again for seconds. `name` is
    where the address was given.
    """
    for host, port in addresses_of(bootstrap, name):
        try:
            socket.create_connection((host, port), timeout=_CONNECT_TIMEOUT_S).close()
            return
        except OSError as error:
            reason = error.strerror or str(error)
        except UnicodeError:
            reason = f"'{host}' is no name of a host"
    raise cannot_connect(bootstrap, reason, name)


def addresses_of(bootstrap: str, name: str = OPTION) -> Iterator[tuple[str, int]]:
    """Hosts and ports of `HOST:PORT[,HOST:PORT ...]`; ClientError at the first that is none."""
    for address in bootstrap.split(","):
        host, separator, port = address.strip().rpartition(":")
        if not separator or not (port.isascii() and port.isdecimal() and int(port) <= _MAX_PORT):
            raise ClientError(f"{name} '{address}' is no HOST:PORT", ExitCode.USAGE)
        yield host.strip("[]"), int(port)


def cannot_connect(bootstrap: str, reason: str, name: str = OPTION) -> ClientError:
    """What a command says where no broker answers."""
    return ClientError(
        f"cannot connect to {bootstrap}: {reason} "
        f"(is a broker running? start one with `kbroker`, or give {name} HOST:PORT)",
        ExitCode.CANNOT_CONNECT,
        Trouble.CANNOT_CONNECT,
    )


def sentence_of(error: Exception) -> str:
    """Name and text of a client error, in one line."""
    text = " ".join(str(error).split())
    name = type(error).__name__
    return text if text.startswith(name) or name in text else f"{name}: {text}"
