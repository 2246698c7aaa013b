"""Finds out what listens at a port that did not let our client in, by what it answers to the
beginnings of several protocols, a connection for each.

Law: the log of a broker has no line about these connections that sounds like another client's
fault: they begin with what the client itself speaks, and bear a name of their own.
"""

from __future__ import annotations

import socket
from contextlib import closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from kbroker.cli.doctor.observations import Heard, Speech
from kbroker.client.broker_link import BrokerLink
from kbroker.client.client_error import ClientError
from kbroker.client.connection_settings import ConnectionSettings, Tls
from kbroker.errors import ErrorCode, KafkaError
from kbroker.protocol.codec import encode
from kbroker.protocol.frame import SIZE
from kbroker.protocol.header import RequestHeader, encode_request_header
from kbroker.protocol.messages.api_versions import ApiVersionsRequest
from kbroker.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kbroker.protocol.schema import Versions
from kbroker.sasl.login_gate import DOCTORS_MECHANISM

if TYPE_CHECKING:
    from ssl import SSLSocket

_CORRELATION_ID = 0x6B62646F  # no other protocol begins an answer with it
_ANSWER_BYTES_MAX = 1024**2  # of an answer to ApiVersions
_READ_BYTES = 512
_WEB_REQUEST = b"GET / HTTP/1.0\r\n\r\n"
_ZOOKEEPER_REQUEST = b"srvr"  # the only four-letter word that is answered by default
_TLS_RECORDS = (b"\x15\x03", b"\x16\x03")  # an alert, a handshake
_PLAIN = ConnectionSettings(client_id="kbroker-doctor")


def listen(
    host: str, port: int, settings: ConnectionSettings, patience_s: float
) -> tuple[Heard, dict[int, Versions]]:
    """Return what listens at a port that refused a client with these settings, and the versions it
    serves if it is a broker. Waits up to `patience_s` for each of at most five answers.
    """
    any_tls = replace(settings.tls or Tls(), checks_certificate=False, checks_host_name=False)
    over_tls = None if settings.tls is None else _tls(host, port, any_tls, patience_s)
    if over_tls is not None:
        return over_tls
    first = _answer(host, port, _versions_request(), patience_s)
    if first and _is_kafka(first):
        return _broker(host, port, patience_s, _PLAIN, Speech.KAFKA)
    if first:
        heard = _by_bytes(first)
        if heard.speech is not Speech.TLS:
            return heard, {}
    over_tls = _tls(host, port, any_tls, patience_s) if settings.tls is None else None
    if over_tls is not None:
        return over_tls
    if first:
        return Heard(speech=Speech.TLS), {}
    for request in (_WEB_REQUEST, _ZOOKEEPER_REQUEST):
        more = _answer(host, port, request, patience_s)
        if more:
            return _by_bytes(more), {}
    return Heard(speech=Speech.SILENCE if first is None else Speech.CLOSED), {}


def _versions_request() -> bytes:
    request = ApiVersionsRequest()
    key = request.spec.key or 0
    head = encode_request_header(RequestHeader(key, 0, _CORRELATION_ID, _PLAIN.client_id))
    frame = encode(request, 0, head)
    return b"".join((SIZE.pack(len(frame)), frame))


def _answer(host: str, port: int, request: bytes, patience_s: float) -> bytes | None:
    """Return the first bytes of an answer: none if the connection was ended, None for silence."""
    try:
        with socket.create_connection((host, port), timeout=patience_s) as plain:
            plain.sendall(request)
            return plain.recv(_READ_BYTES)
    except TimeoutError:
        return None
    except OSError:
        return b""


def _is_kafka(answer: bytes) -> bool:
    if len(answer) < 2 * SIZE.size:
        return False
    size, correlation_id = int.from_bytes(answer[:4]), int.from_bytes(answer[4:8])
    return 0 < size < _ANSWER_BYTES_MAX and correlation_id == _CORRELATION_ID


def _by_bytes(answer: bytes) -> Heard:
    if answer.startswith(_TLS_RECORDS):
        return Heard(speech=Speech.TLS)
    if answer.startswith(b"HTTP/"):
        return Heard(speech=Speech.HTTP, first_bytes=answer)
    if b"Zookeeper" in answer or b"not in the whitelist" in answer:
        return Heard(speech=Speech.ZOOKEEPER)
    return Heard(speech=Speech.OTHER, first_bytes=answer)


def _broker(
    host: str, port: int, patience_s: float, settings: ConnectionSettings, speech: Speech
) -> tuple[Heard, dict[int, Versions]]:
    """Ask a broker for its mechanisms, by one that nobody has."""
    try:
        with closing(BrokerLink(host, port, patience_s, settings)) as link:
            return Heard(speech=speech, mechanisms=_mechanisms(link)), dict(link.served)
    except (OSError, ClientError):
        return Heard(speech=speech), {}


def _mechanisms(link: BrokerLink) -> tuple[str, ...] | None:
    try:
        answer = link.ask(SaslHandshakeRequest(mechanism=DOCTORS_MECHANISM))
    except (OSError, KafkaError):
        return None
    if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        return ()
    return tuple(answer.mechanisms)


def _tls(
    host: str, port: int, tls: Tls, patience_s: float
) -> tuple[Heard, dict[int, Versions]] | None:
    """Return what is behind TLS, whoever signed its certificate; None if there is no TLS."""
    import ssl  # for ports that did not let us in

    try:
        _secured(host, port, tls, patience_s).close()
    except ssl.SSLError as error:
        is_alert = "ALERT" in (getattr(error, "reason", None) or "")
        return (Heard(speech=Speech.TLS), {}) if is_alert else None
    except OSError:
        return None
    inside = replace(_PLAIN, tls=tls)
    heard, serves = _broker(host, port, patience_s, inside, Speech.KAFKA_OVER_TLS)
    if serves:
        return heard, serves
    with suppress(OSError), _secured(host, port, tls, patience_s) as over_tls:
        over_tls.sendall(_WEB_REQUEST)
        heard = _by_bytes(over_tls.recv(_READ_BYTES))
        if heard.speech is Speech.HTTP:
            return heard, {}
    return Heard(speech=Speech.TLS), {}


def _secured(host: str, port: int, tls: Tls, patience_s: float) -> SSLSocket:
    from kbroker.client.tls import secured

    plain = socket.create_connection((host, port), timeout=patience_s)
    try:
        return secured(plain, host, tls)
    except BaseException:
        plain.close()
        raise
