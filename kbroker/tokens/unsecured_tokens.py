"""UnsecuredTokenJudge: takes tokens that nobody has signed, for tests on one machine. Pure.

Whoever comes is who they say. The options are those of Kafka's
OAuthBearerUnsecuredValidatorCallbackHandler, in the JAAS entry of the listener.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kbroker.errors import ConfigError
from kbroker.sasl.exchange import Identity
from kbroker.sasl.oauthbearer import BearerLogin, TokenRefusal
from kbroker.tokens.json_token import parse_token
from kbroker.tokens.token_claims import lifetime_of, strings, user_of

_PREFIX = "unsecuredValidator"
_PRINCIPAL, _SCOPE = f"{_PREFIX}PrincipalClaimName", f"{_PREFIX}ScopeClaimName"
_REQUIRED, _SKEW = f"{_PREFIX}RequiredScope", f"{_PREFIX}AllowableClockSkewMs"
_NAMES = (_PRINCIPAL, _SCOPE, _REQUIRED, _SKEW)


class UnsecuredTokenJudge:
    """A judge of logins by OAUTHBEARER that asks for no signature."""

    def __init__(self, options: Mapping[str, str], now_ms: Callable[[], int]) -> None:
        """`now_ms` is by the clock on the wall. Raises ConfigError for an option that is wrong."""
        for name in options:
            if name.startswith(_PREFIX) and name not in _NAMES:
                raise ConfigError(f"the option {name} is not known: those are {', '.join(_NAMES)}")
        skew = options.get(_SKEW, "0")
        if not (skew.isascii() and skew.isdecimal()):
            raise ConfigError(f"the option {_SKEW} is not a number of milliseconds")
        self._skew_ms = int(skew)
        self._sub_claim = options.get(_PRINCIPAL, "sub")
        self._scope_claim = options.get(_SCOPE, "scope")
        self._required = frozenset(options.get(_REQUIRED, "").split())
        self._now_ms = now_ms

    def __call__(self, login: BearerLogin) -> Identity | TokenRefusal:
        """Judge a login by what its token says of itself."""
        try:
            token = parse_token(login.token)
            if token.header.get("alg") != "none" or token.signature:
                raise ValueError("it is signed, and this listener takes unsigned ones only")
            now_ms = self._now_ms()
            expires_at_ms = lifetime_of(token.claims, now_ms, self._skew_ms)
            name = user_of(token.claims, self._sub_claim)
            scopes = {
                each for text in strings(token.claims, self._scope_claim) for each in text.split()
            }
        except ValueError as error:
            return TokenRefusal("invalid_token", f"a token that is not taken: {error}")
        if not self._required <= scopes:
            required = " ".join(sorted(self._required))
            return TokenRefusal("insufficient_scope", "a token without the scope", required)
        ends_ms = expires_at_ms if expires_at_ms > now_ms else expires_at_ms + self._skew_ms
        return Identity(name, expires_at_ms=ends_ms)
