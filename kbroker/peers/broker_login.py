"""BrokerLogin: logs this broker in at others.

Keys are derived and tokens are fetched on a thread: both take their time.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable

from kbroker.errors import ConfigError
from kbroker.peers.way import Ask, NotLetInError
from kbroker.protocol.schema import Message
from kbroker.sasl.client_login import NONCE_BYTES, ClientLogin, LoginFailedError, LoginTrouble
from kbroker.sasl.login import Login, NoTokenError
from kbroker.sasl.scram_keys import SaltedPasswords

_SAID_CHARACTERS = 200  # of what the other broker says, which is a line of the log


class BrokerLogin:
    """The same login at every broker of the cluster."""

    def __init__(self, login: Callable[[], Login], setting: str) -> None:
        """`login` is the one by the settings in force, and may raise ConfigError; `setting` has the
        name and the password, for refusals.
        """
        self._login = login
        self._setting = setting
        self._salted = SaltedPasswords()

    async def log_in(self, ask: Ask, peer: str) -> float | None:
        """Log in, as `LogIn` says."""
        try:
            login = self._login()
        except ConfigError as error:
            raise NotLetInError(f"no login at {peer}: {error}") from error
        exchange = ClientLogin(login, secrets.token_urlsafe(NONCE_BYTES), self._salted.derive)
        request: Message | None = exchange.begin()
        try:
            while request is not None:
                request = await asyncio.to_thread(exchange.receive, await ask(request))
        except LoginFailedError as failure:
            raise NotLetInError(self._sentence(login, failure, peer)) from failure
        except RuntimeError as error:  # of the system's limit of threads
            raise OSError(f"there is no thread for a login at {peer}") from error
        except NoTokenError as error:
            raise NotLetInError(f"no login at {peer}: {error}") from error
        return exchange.session_ms / 1000 or None

    def _sentence(self, login: Login, failure: LoginFailedError, peer: str) -> str:
        mechanism, said = login.mechanism, str(failure)[:_SAID_CHARACTERS]
        if failure.trouble is LoginTrouble.REFUSED:
            who = f" of {login.username}" if login.username else ""
            return (
                f"{peer} refuses the login{who} with {mechanism} ({said}): check "
                f"{self._setting}, and the users of that broker"
            )
        if failure.trouble is LoginTrouble.NOT_OFFERED:
            return (
                f"{peer} does not offer the login {mechanism} ({said}): "
                "sasl.mechanism.inter.broker.protocol has to be among its sasl.enabled.mechanisms"
            )
        return f"{peer} does not go through the login {mechanism}: {said}"
