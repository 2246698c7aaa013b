"""kafka-python's consumer, for commands that are a member of a classic group, and for nothing else.
It unpacks records with the project's own codecs: those of its extras are 29 MB.

Law: it holds a whole batch in memory, and an object for each old message, so it gets small batches
only. A larger one looks corrupt to it, and its caller reads that with the project's own reader.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from kbroker.client.bootstrap import cannot_connect, check_reachable, settings_of
from kbroker.client.client_error import ClientError, sentence_of, unanswered
from kbroker.client.connection_settings import UNSECURED, ConnectionSettings
from kbroker.client.exit_code import ExitCode
from kbroker.client.fetched_batches import HELD_BYTES
from kbroker.errors import KafkaError, Trouble
from kbroker.record.compression import GZIP, LZ4, SNAPPY, ZSTD, Bytes, decompress
from kbroker.sasl.login import TokenSource

_OLD_BYTES = 4 * 1024 * 1024  # of what an old message wraps
_LENT = {"gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}

# How the library quotes the system about a connection that was refused: "111 ECONNREFUSED".
_NOT_CONNECTED = re.compile(r"\b\d+ E[A-Z]+$")


def library_consumer(bootstrap: str, **options: Any) -> Any:
    """Return a `KafkaConsumer` with these options; the caller closes it.

    Raises ClientError, and what `client_errors` handles.
    """
    from kafka import KafkaConsumer  # costs 130 ms

    lend_codecs()
    return KafkaConsumer(**options | _connection_options(bootstrap))


class MemberParts:
    """The parts of a `KafkaConsumer` that it keeps to itself, and without which a member that
    follows would lose its place, or make topics. Nothing else reaches into the library.
    """

    def __init__(self, consumer: Any) -> None:
        self._cluster, self._coordinator = consumer._cluster, consumer._coordinator
        # The option of the consumer does not reach its metadata requests, which would make a topic
        # that was deleted meanwhile.
        self._cluster.config["allow_auto_create_topics"] = False

    def known_topics(self, names: Iterable[str]) -> set[str]:
        """Return the topics of which the consumer knows partitions. Its own method would ask the
        cluster for all topics, each time that one of them is not there.
        """
        return {name for name in names if self._cluster.partitions_for_topic(name)}

    def join(self, timeout_ms: int) -> None:
        """Join the group. A poll of the consumer that ends amid a join forgets that it joined, so
        this one gets time of its own.
        """
        self._coordinator.poll(timeout_ms=timeout_ms)

    @property
    def has_coordinator(self) -> bool:
        """Whether a commit would be sent now, not once there is a coordinator."""
        return not self._coordinator.coordinator_unknown()

    async def commit(self, offsets: Mapping[Any, Any], timeout_ms: int) -> None:
        """Commit from within a rebalance, where the consumer's own method would wait for itself."""
        await self._coordinator._commit_offsets_sync_async(offsets, timeout_ms=timeout_ms)


@contextmanager
def client_errors(bootstrap: str) -> Iterator[None]:
    """Turn the client library's exceptions into one sentence and an exit code."""
    import logging

    check_reachable(bootstrap)
    from kafka import errors

    logging.getLogger("kafka").setLevel(logging.CRITICAL)  # its retries are no news
    try:
        yield
    except errors.KafkaConnectionError as error:
        if _NOT_CONNECTED.search(str(error)):
            raise _behind(bootstrap, str(error)) from error
        raise cannot_connect(bootstrap, "no Kafka broker answers there") from error
    except errors.KafkaTimeoutError as error:
        if "bootstrap" in str(error):
            raise cannot_connect(bootstrap, "no broker answered in time") from error
        raise unanswered(bootstrap, error) from error
    except errors.NodeNotReadyError as error:
        (name,) = error.args or ("",)  # of the broker that the library has just tried
        broker = f"broker {name} takes no" if isinstance(name, int) else "no broker takes a"
        raise _behind(bootstrap, f"{broker} connection") from error
    except errors.GroupAuthorizationFailedError as error:
        (name, *_) = error.args or ("",)
        raise ClientError(f"group {name} cannot be used: GROUP_AUTHORIZATION_FAILED") from error
    except errors.KafkaError as error:
        raise ClientError(sentence_of(error)) from error
    except ValueError as error:
        raise ClientError(f"{error}", ExitCode.USAGE) from error


def _behind(bootstrap: str, reason: str) -> ClientError:
    return ClientError(
        f"{bootstrap} names another broker that cannot be reached ({reason}): it has just "
        "stopped, or the address it advertises cannot be reached from here",
        ExitCode.CANNOT_CONNECT,
        Trouble.ADVERTISED_ADDRESS,
    )


def _connection_options(bootstrap: str) -> dict[str, Any]:
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
    login = settings.login
    if login is not None:
        found["sasl_mechanism"] = login.mechanism
        if login.tokens is None:
            found["sasl_plain_username"] = login.username
            found["sasl_plain_password"] = login.password
        else:
            from kafka.net.sasl.oauth import AbstractTokenProvider

            AbstractTokenProvider.register(_TokenProvider)
            found["sasl_oauth_token_provider"] = _TokenProvider(login.tokens)
    if settings.tls is not None:
        from kbroker.client.tls import tls_context  # most commands need no ssl

        found["ssl_context"] = tls_context(settings.tls)
    return found


class _TokenProvider:
    """Gives tokens to the library, which asks for one at each login."""

    def __init__(self, tokens: TokenSource) -> None:
        self._tokens = tokens

    def token(self) -> str:
        return self._tokens().token

    def extensions(self) -> dict[str, str]:
        return dict(self._tokens().extensions)


def lend_codecs() -> None:
    """Have kafka-python's readers of records call our codecs, by the names bound at import."""
    from kafka import codec as library_codecs
    from kafka.record import default_records, legacy_records

    for name, codec in _LENT.items():
        setattr(library_codecs, f"has_{name}", _is_here)
        for module in (library_codecs, default_records, legacy_records):
            most_bytes = _OLD_BYTES if module is legacy_records else HELD_BYTES
            setattr(module, f"{name}_decode", partial(_unpacked, codec, most_bytes))


def _is_here() -> bool:
    return True


def _unpacked(codec: int, most_bytes: int, data: Bytes) -> Bytes:
    from kafka.errors import CorruptRecordError

    try:
        return decompress(codec, data, most_bytes)
    except KafkaError as error:
        raise CorruptRecordError(str(error)) from error
