"""Logins by name and password without a connection: the client of a mechanism beside its server.

Whoever brings a password by another way than SASL is judged as at a listener: by the same
exchanges. Pure.

Law: a refusal takes as long for users with Kafka's least iterations as for those of `kbroker user`,
and for those who do not exist, who have either: nobody can tell them apart by the time.
"""

from __future__ import annotations

from kbroker.sasl.client_login import client_tokens
from kbroker.sasl.exchange import Exchange, Identity, LoginRefusedError
from kbroker.sasl.login import Login
from kbroker.sasl.scram_keys import OWN_ITERATIONS, ScramMechanism
from kbroker.sasl.scram_messages import ScramError


def identity_of(login: Login, exchange: Exchange, nonce: str) -> Identity:
    """Say whom an exchange takes the owner of a name and a password for, which takes the
    milliseconds of SCRAM. `nonce`: printable, random, without commas. Raises LoginRefusedError.
    """
    tokens = client_tokens(login, nonce, _salted)
    try:
        token = next(tokens)
        while True:
            turn = exchange.receive(token)
            if turn.identity is not None:
                return turn.identity
            token = tokens.send(turn.token)
    except (ScramError, ValueError):  # the latter: letters that no message can have
        raise LoginRefusedError("a name or a password that the mechanism cannot carry") from None


def _salted(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    salted = mechanism.salted(password, salt, iterations)
    if iterations < OWN_ITERATIONS:
        mechanism.salted(password, salt, OWN_ITERATIONS - iterations)
    return salted
