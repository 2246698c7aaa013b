"""Logs a link in, and says what to do if the broker refuses. Brokers before Kafka 1.0 expect other
frames and are not served.

Law: a refusal is a ClientError, because a person has to put something right, and no other broker of
the cluster would let us in; it never holds a password.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from kbroker.client.connection_settings import MECHANISMS
from kbroker.client.link_refusals import refused
from kbroker.errors import KafkaError, Trouble
from kbroker.protocol.schema import Message
from kbroker.sasl.client_login import (
    NONCE_BYTES,
    ClientLogin,
    LoginFailedError,
    LoginTrouble,
)
from kbroker.sasl.login import Login, NoTokenError

Ask = Callable[[Message], Any]
"""Sends a request and returns its answer. Raises OSError, and KafkaError UNSUPPORTED_VERSION."""


def log_in(ask: Ask, login: Login, address: str) -> float | None:
    """Log in; returns for how many seconds the login is valid, None: as long as the link lasts.

    Raises ClientError, OSError.
    """
    exchange = ClientLogin(login, secrets.token_urlsafe(NONCE_BYTES))
    request: Message | None = exchange.begin()
    try:
        while request is not None:
            request = exchange.receive(ask(request))
    except NoTokenError as error:
        raise refused(address, str(error)) from error
    except KafkaError as error:
        raise refused(address, _TAKES_NONE) from error
    except LoginFailedError as error:
        raise refused(address, _sentence(login, error), Trouble.LOGIN_REFUSED) from error
    return exchange.session_ms / 1000 or None


def _sentence(login: Login, failure: LoginFailedError) -> str:
    if failure.trouble is LoginTrouble.TAKES_NONE:
        return _TAKES_NONE
    if failure.trouble is LoginTrouble.NOT_OFFERED:
        return _not_offered(login, failure.offered)
    if failure.trouble is LoginTrouble.REFUSED and login.tokens is not None:
        return (
            f"the broker refuses the token for a login with {login.mechanism} ({failure}): its log "
            "says why, such as another issuer or audience than it expects"
        )
    if failure.trouble is LoginTrouble.REFUSED and login.is_by_delegation:
        return (
            f"the broker refuses the delegation token {login.username} with {login.mechanism} "
            f"({failure}): it has ended, or its brokers have another secret now; its owner sees "
            "that with `kbroker token list`"
        )
    if failure.trouble is LoginTrouble.REFUSED:
        return (
            f"the broker refuses the login of {login.username} with {login.mechanism} "
            f"({failure}): check name and password, and that the user has one for this mechanism"
        )
    return (
        f"the broker does not go through {login.mechanism} as it should: {failure}; check that "
        "the address is that of your cluster"
    )


def _not_offered(login: Login, offered: tuple[str, ...]) -> str:
    ours = [name for name in offered if name in MECHANISMS]
    step = (
        f"give sasl.mechanism={ours[0]}"
        if ours
        else f"have it offer one of {', '.join(MECHANISMS)}"
    )
    return (
        f"the broker does not offer the login {login.mechanism}, but "
        f"{', '.join(offered) or 'none'}: {step}"
    )


_TAKES_NONE = (
    "this port takes no login: give the port that does, or security.protocol=PLAINTEXT (SSL with "
    "TLS)"
)
