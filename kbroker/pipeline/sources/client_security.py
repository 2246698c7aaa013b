"""TLS and SASL for the job's own look-ups, out of what Spark's Kafka connector is told.

A job has two clients: the connector's, in Java, and kafka-python on the driver, for topics and
offsets. A person says once, in Java's words (`kafka.security.protocol` and so on), how both get in.
What the second cannot do is refused before anything starts: half a job that gets in is of no use.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from typing import Any

from kbroker.pipeline.errors import ExitCode, PipelineError

SECURITY_OPTIONS = ("kafka.sasl.", "kafka.security.", "kafka.ssl.")  # how their names begin

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_JAVAS_MECHANISM = "GSSAPI"  # where none is given
_PROTOCOL, _MECHANISM = "kafka.security.protocol", "kafka.sasl.mechanism"
_LOGIN = "kafka.sasl.jaas.config"
_TRUST_TYPE, _TRUST_FILE = "kafka.ssl.truststore.type", "kafka.ssl.truststore.location"
_TRUST_TEXT = "kafka.ssl.truststore.certificates"
_KEY_TYPE, _KEY_FILE = "kafka.ssl.keystore.type", "kafka.ssl.keystore.location"
_KEY_PHRASE = "kafka.ssl.key.password"
_HOST_CHECK = "kafka.ssl.endpoint.identification.algorithm"
_KNOWN = {
    _PROTOCOL, _MECHANISM, _LOGIN, _TRUST_TYPE, _TRUST_FILE, _TRUST_TEXT, _KEY_TYPE, _KEY_FILE,
    _KEY_PHRASE, _HOST_CHECK,
}  # fmt: skip

_LOGIN_MODULE = re.compile(r"\s*[\w.]*(?:Plain|Scram)LoginModule\s+required\b(.*);\s*", re.DOTALL)
_LOGIN_FIELD = re.compile(
    r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s"';]+))"""
)


def client_options(options: Mapping[str, str]) -> dict[str, Any]:
    """Options of kafka-python that say the same as these of the connector; empty where none of
    them is about security. Raises PipelineError.
    """
    given = {name.lower(): value for name, value in options.items()}
    given = {name: value for name, value in given.items() if name.startswith(SECURITY_OPTIONS)}
    unknown = sorted(given.keys() - _KNOWN)
    if unknown:
        raise _refusal(
            f"{unknown[0]}: the job's own look-ups cannot do as it says; they know "
            f"{', '.join(sorted(_KNOWN))}"
        )
    if not given:
        return {}
    protocol = given.get(_PROTOCOL, "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise _refusal(f"{_PROTOCOL}={protocol} is none of {', '.join(_PROTOCOLS)}")
    found: dict[str, Any] = {"security_protocol": protocol}
    if protocol.startswith("SASL_"):
        found |= _login(given)
    if protocol.endswith("SSL"):
        found["ssl_context"] = _tls(given)
    return found


def _login(given: Mapping[str, str]) -> dict[str, str]:
    mechanism = given.get(_MECHANISM, _JAVAS_MECHANISM).upper()
    if mechanism not in _MECHANISMS:
        raise _refusal(
            f"{_MECHANISM}={mechanism}: the job's own look-ups know {', '.join(_MECHANISMS)}"
        )
    text = given.get(_LOGIN, "")
    module = _LOGIN_MODULE.fullmatch(text)
    fields = {
        name: re.sub(r"\\(.)", r"\1", double or single) or bare
        for name, double, single, bare in _LOGIN_FIELD.findall(module[1] if module else "")
    }
    if not {"username", "password"} <= fields.keys():
        kind = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        raise _refusal(
            f"{_LOGIN} has to be 'org.apache.kafka.common.security.{kind} required "
            'username="NAME" password="PASSWORD";\' for '
            f"{mechanism}"
        )
    return {
        "sasl_mechanism": mechanism,
        "sasl_plain_username": fields["username"],
        "sasl_plain_password": fields["password"],
    }


def _tls(given: Mapping[str, str]) -> ssl.SSLContext:
    for type_name, file_name, what in (
        (_TRUST_TYPE, _TRUST_FILE, "trusted certificates"),
        (_KEY_TYPE, _KEY_FILE, "the key and its certificates"),
    ):
        store_type = given.get(type_name, "JKS").upper()
        if file_name in given and store_type != "PEM":
            raise _refusal(
                f"{file_name}={given[file_name]} is a store of type {store_type}, which only Java "
                f"reads: give {what} as a PEM file, with {type_name}=PEM (keytool and openssl "
                "pkcs12 make one)"
            )
    try:
        context = ssl.create_default_context(
            cafile=given.get(_TRUST_FILE), cadata=given.get(_TRUST_TEXT)
        )
        if _KEY_FILE in given:
            context.load_cert_chain(given[_KEY_FILE], password=given.get(_KEY_PHRASE, ""))
    except (OSError, ValueError) as error:  # ssl's own errors are OSErrors
        names = [name for name in (_TRUST_FILE, _TRUST_TEXT, _KEY_FILE) if name in given]
        raise _refusal(f"{' and '.join(names)} cannot be used: {error}") from error
    if not given.get(_HOST_CHECK, "https"):
        context.check_hostname = False
    return context


def _refusal(sentence: str) -> PipelineError:
    return PipelineError(f"--kafka-option {sentence}", ExitCode.USAGE)
