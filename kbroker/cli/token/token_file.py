"""The properties file with which a client logs in by a delegation token.

Law: the file is its writer's alone, and takes the place of no other file. Of what the command was
given it has the trust in brokers, and nothing by which the command itself logs in.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import click

from kbroker.cli.arguments.bootstrap_reading import properties_of_call
from kbroker.cli.arguments.connection import CommandError
from kbroker.config.jaas import LoginModule
from kbroker.config.properties_file import properties_text
from kbroker.sasl.scram_keys import SCRAM_MECHANISMS

_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_OWN_LOGIN = ("sasl.", "ssl.key", "ssl.certificate", "client.id")
_MECHANISM, _PROTOCOL, _BOOTSTRAP = "sasl.mechanism", "security.protocol", "bootstrap.servers"


def token_properties(
    token_id: str, password: str, bootstrap: str, given: Mapping[str, str]
) -> dict[str, str]:
    """The properties of a client that logs in by a token, where the command got it that was
    `given` other ones.
    """
    own = given.get(_MECHANISM, given.get("sasl.mechanisms", "")).strip().upper()
    options = {"username": token_id, "password": password, "tokenauth": "true"}
    entry = LoginModule(module=_MODULE, flag="required", options=options)
    kept = {name: value for name, value in given.items() if not name.startswith(_OWN_LOGIN)}
    has_tls = given.get(_PROTOCOL, "").strip().upper().endswith("SSL")
    return kept | {
        _BOOTSTRAP: bootstrap,
        _PROTOCOL: "SASL_SSL" if has_tls else "SASL_PLAINTEXT",
        _MECHANISM: own if own in SCRAM_MECHANISMS else next(reversed(SCRAM_MECHANISMS)),
        "sasl.jaas.config": entry.text(),
    }


def open_new(path: str) -> int:
    """Make a file for the token, before there is one. Raises CommandError."""
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise CommandError(f"{path} is there already: give the name of a new file") from None
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}") from error


def write_token(descriptor: int, token_id: str, password: str, bootstrap: str) -> None:
    """Write the properties of a client that logs in by this token, and close the file."""
    given = properties_of_call(click.get_current_context())
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(properties_text(token_properties(token_id, password, bootstrap, given)))
