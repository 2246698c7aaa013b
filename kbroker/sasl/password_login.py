"""Logins by name and password without a connection: the client of a mechanism beside its server.

Pure. Whoever brings a password by another way than SASL is judged as at a listener: by the same
exchanges, and so with the same refusals after the same work.
"""

from __future__ import annotations

from kbroker.sasl.client_login import client_tokens
from kbroker.sasl.exchange import Exchange, Identity, LoginRefusedError
from kbroker.sasl.login import Login
from kbroker.sasl.scram_keys import ScramMechanism
from kbroker.sasl.scram_messages import ScramError


def identity_of(login: Login, exchange: Exchange, nonce: str) -> Identity:
    """Say whom an exchange takes the owner of a name and a password for, which takes the
    milliseconds of SCRAM. `nonce`: printable, random, without commas. Raises LoginRefusedError.
    """
    tokens = client_tokens(login, nonce, ScramMechanism.salted)
    try:
        token = next(tokens)
        while True:
            turn = exchange.receive(token)
            if turn.identity is not None:
                return turn.identity
            token = tokens.send(turn.token)
    except (ScramError, ValueError):  # the latter: letters that no message can have
        raise LoginRefusedError("a name or a password that the mechanism cannot carry") from None
