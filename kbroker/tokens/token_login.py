"""A login by tokens, out of the options of a JAAS entry and the settings beside it: for brokers at
others, and for commands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from kbroker.config.config_values import ConfigValue, invalid_value
from kbroker.config.oauthbearer_settings import OAUTHBEARER
from kbroker.config.web_urls import check_web_url
from kbroker.errors import ConfigError
from kbroker.sasl.login import Login, TokenSource
from kbroker.tokens.token_request import RefreshWindow, TokenRequest
from kbroker.tokens.token_sources import UNSECURED, FetchedTokens, TokenPlace, UnsecuredTokens
from kbroker.tokens.web_fetch import WebPlace
from kbroker.tokens.web_trust import web_trust

_URL = "sasl.oauthbearer.token.endpoint.url"
_HANDLER = "sasl.login.callback.handler.class"
_PACKAGE = "org.apache.kafka.common.security.oauthbearer."
# They do what is done here without any.
_KAFKAS_HANDLERS = (
    f"{_PACKAGE}OAuthBearerLoginCallbackHandler",
    f"{_PACKAGE}secured.OAuthBearerLoginCallbackHandler",
    f"{_PACKAGE}internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler",
)
_ID, _SECRET, _EXTENSION = "clientId", "clientSecret", "extension_"
ENCODED = "sasl.oauthbearer.header.urlencode"

Get = Callable[[str], tuple[str, ConfigValue]]
"""Returns the value of a setting, and the whole name that it is set by."""


def token_login(
    get: Get, jaas: str, options: Mapping[str, str], now_ms: Callable[[], int]
) -> Login:
    """Make the login of these `options`, which are of the setting `jaas`. `now_ms` is by the clock
    on the wall. Raises ConfigError with a sentence.
    """
    handler_name, handler = get(_HANDLER)
    if handler is not None and handler not in _KAFKAS_HANDLERS:
        raise invalid_value(
            handler_name, handler, f"classes of Java are not run here: give {_KAFKAS_HANDLERS[0]}"
        )
    extensions = {
        name.removeprefix(_EXTENSION): value
        for name, value in options.items()
        if name.startswith(_EXTENSION)
    }
    url_name, url = cast("tuple[str, str | None]", get(_URL))
    try:
        if url:
            check_web_url(url_name, url)
            tokens: TokenSource = FetchedTokens(_place(get, url, options, extensions), now_ms)
        elif any(name.startswith(UNSECURED) for name in options):
            tokens = UnsecuredTokens(options, extensions, now_ms)
        else:
            raise ConfigError(
                f"it has no token to log in with: set {url_name} to the server that gives them, "
                f"https://HOST/PATH, or to a file with one, file:///PATH"
            )
    except ConfigError as error:
        raise ConfigError(f"{jaas} of OAUTHBEARER: {error}") from error
    return Login(mechanism=OAUTHBEARER, username=options.get(_ID, ""), tokens=tokens)


def _place(
    get: Get, url: str, options: Mapping[str, str], extensions: Mapping[str, str]
) -> TokenPlace:
    def number(name: str) -> int:
        return cast("int", get(name)[1])

    def share(name: str) -> float:
        return cast("float", get(name)[1])

    place = WebPlace.of(
        url,
        web_trust(options),
        cast("int | None", get("sasl.login.connect.timeout.ms")[1]),
        cast("int | None", get("sasl.login.read.timeout.ms")[1]),
    )
    return TokenPlace(
        place=place,
        request=None if place.is_file else _request(options),
        extensions=extensions,
        window=lambda: RefreshWindow(
            factor=share("sasl.login.refresh.window.factor"),
            jitter=share("sasl.login.refresh.window.jitter"),
            min_period_ms=1000 * number("sasl.login.refresh.min.period.seconds"),
            buffer_ms=1000 * number("sasl.login.refresh.buffer.seconds"),
        ),
        backoff_ms=max(1, number("sasl.login.retry.backoff.ms")),
        backoff_max_ms=number("sasl.login.retry.backoff.max.ms"),
    )


def _request(options: Mapping[str, str]) -> TokenRequest:
    if not options.get(_ID) or not options.get(_SECRET):
        raise ConfigError(
            f'the token server wants to know the client: add {_ID}="ID" {_SECRET}="SECRET"'
        )
    return TokenRequest(
        client_id=options[_ID],
        client_secret=options[_SECRET],
        scope=options.get("scope", ""),
        is_encoded=options.get(ENCODED) == "true",
    )
