"""The HTTP address of one broker, as its settings want it, and what is served there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from kbroker.config.http_access import console_listener, login_listener, tls_listener
from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import ConfigError
from kbroker.http.http_server import HttpServer
from kbroker.model import WITH_TLS

if TYPE_CHECKING:
    from kbroker.config.tls_settings import TlsSettings
    from kbroker.http.answers import Application
    from kbroker.http.broker_loop import BrokerLoop
    from kbroker.http.connection_routes import LookAtConnections
    from kbroker.http.event_routes import LookAtEvents
    from kbroker.http.health_routes import LookAtHealth
    from kbroker.http.metrics_routes import LookAtMetrics, Prepare
    from kbroker.http.routes import MakeRoutes, Route
    from kbroker.http.tls_line import MakeTls
    from kbroker.http.trace_routes import FindTracer
    from kbroker.http.users import Users, Verdict
    from kbroker.server.broker.broker_console import ConsoleLooks, FindEndPoints, LookAtFigures

SERVED: Final[Mapping[str, str]] = {
    "/overview": "the console, for a browser",
    "/api/v1/openapi.json": "what the console shows and does, for programs",
    "/livez": "whether the broker's event loop answers",
    "/readyz": "whether the broker is ready for clients, check by check",
    "/metrics": "what it counts and measures, for Prometheus",
    "/api/events": "what happened lately, and why: ?group=G, ?topic=T&partition=N, or all",
    "/api/connections": "who is connected",
    "/api/trace": "requests of clients as they are answered, a line of JSON each",
}
_MOST_TOKEN_BYTES = 4096

CheckLogin = Callable[[str, "str | None", str, str], "Awaitable[Verdict]"]
"""Checks for a listener, on the broker's loop, an address, a name and a password."""
LookRefusal = Callable[[str, str, str], "str | None"]
"""Says for a listener, a principal and an address why that user may not see what the broker knows
of itself; None if the user may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Looks:
    """Questions of the HTTP thread to a broker, each called on the broker's loop."""

    checks: LookAtHealth
    events: LookAtEvents
    tracer: FindTracer
    samples: LookAtMetrics
    before_samples: Prepare
    end_points: FindEndPoints
    connections: LookAtConnections
    figures: LookAtFigures
    check_login: CheckLogin
    look_refusal: LookRefusal
    # The following are called on the HTTP thread.
    settings: Callable[[], KafkaConfig]  # in force
    tls: Callable[[str], TlsSettings | None]  # in force of a listener, None while the broker starts
    login_changes: Callable[[], int]  # of what passwords are checked by


def http_server_of(config: KafkaConfig, looks: Looks) -> HttpServer | None:
    """The server that these settings ask for, not started yet; None if they ask for none. Raises
    ConfigError for a token that cannot be read.
    """
    end_points = config.http_end_points()
    if not end_points:
        return None
    tls = _tls(config, looks)
    return HttpServer(
        end_points,
        partial(_application, config, _token(config), looks, tls),
        may_move=not config.is_http_asked_for(),
        tls=tls,
    )


def _application(
    config: KafkaConfig,
    token: str | None,
    looks: Looks,
    tls: MakeTls | None,
    loop: BrokerLoop,
) -> Application:
    # On the HTTP thread: a broker that nobody looks at loads none of this.
    from kbroker.http.event_routes import event_routes
    from kbroker.http.guard import Guard, names_of
    from kbroker.http.health_routes import health_routes, index_route
    from kbroker.http.routes import RouteTable
    from kbroker.server.broker.broker_console import BrokerConsole, ConsoleLooks

    seen_by_console = ConsoleLooks(
        events=looks.events,
        tracer=looks.tracer,
        end_points=looks.end_points,
        connections=looks.connections,
        figures=looks.figures,
        settings=looks.settings,
    )
    hosts = {*config.kbroker.kbroker_http_hosts, *(e.host for e in config.http_end_points())}
    users = _users(config, looks, loop, seen_by_console)
    open_routes = {}
    if token is None and (users is not None or console_listener(config) is None):
        import secrets

        token = secrets.token_urlsafe()  # nobody has it
    if users is not None:
        from kbroker.server.broker.http_users import static_routes

        open_routes = static_routes()
    return RouteTable(
        routes={
            **open_routes,
            "/": index_route(SERVED),
            **health_routes(loop, looks.checks),
            **event_routes(loop, looks.events),
        },
        made_later=_made_later(config, looks, loop),
        guard=Guard(names=names_of(hosts), token=token, certified=partial(_certified, tls)),
        otherwise=None if users else BrokerConsole(config.kbroker, loop, seen_by_console),
        users=users,
    )


def _users(
    config: KafkaConfig, looks: Looks, loop: BrokerLoop, seen_by_console: ConsoleLooks
) -> Users | None:
    """The users of the listener that takes passwords; None without such a listener."""
    listener = login_listener(config)
    if listener is None:
        return None
    from kbroker.http.rights import Rights
    from kbroker.server.broker.http_users import pages_of, users_of

    name = listener.listener_name

    def rights(principal: str, host: str) -> Rights:
        return Rights(loop, partial(looks.look_refusal, name, principal, host))

    check = partial(looks.check_login, name)
    pages = pages_of(config.kbroker, loop, seen_by_console, rights)
    return users_of(loop, check, looks.login_changes, pages, rights)


def _tls(config: KafkaConfig, looks: Looks) -> MakeTls | None:
    """The TLS of the address; None if no listener has TLS. Raises ConfigError."""
    if not any(each.security_protocol in WITH_TLS for each in config.end_points()):
        return None
    from kbroker.server.broker.http_tls import HttpTls

    listener = tls_listener(config)
    assert listener is not None
    name = listener.listener_name
    return HttpTls(config, name, partial(looks.tls, name))


def _certified(tls: MakeTls | None) -> frozenset[str]:
    """The names in the certificate in force, for which a page elsewhere has none."""
    if tls is None:
        return frozenset()
    from kbroker.http.guard import names_of

    return names_of(
        each.removeprefix("DNS:")
        for each in tls().certificate.alternative_names
        if each.startswith("DNS:")
    )


def _made_later(config: KafkaConfig, looks: Looks, loop: BrokerLoop) -> Mapping[str, MakeRoutes]:
    """Return the routes that load more than the first page of a console should wait for. What the
    broker's loop needs for them is loaded here, on the HTTP thread.
    """

    def connections() -> Mapping[str, Route]:
        from kbroker.http.connection_routes import connection_routes
        from kbroker.server.broker import open_connections  # noqa: F401

        return connection_routes(loop, looks.connections)

    def trace() -> Mapping[str, Route]:
        from kbroker.http.trace_routes import trace_routes

        return trace_routes(loop, looks.tracer)

    def metrics() -> Mapping[str, Route]:
        from kbroker.http.metrics_routes import metrics_routes
        from kbroker.server.broker import (  # noqa: F401
            broker_metrics,
            quotas_in_force,
            transactions_in_force,
        )

        shown = config.kbroker.kbroker_metrics_partitions
        return metrics_routes(loop, looks.samples, looks.before_samples, shown)

    return {"/api/connections": connections, "/api/trace": trace, "/metrics": metrics}


def _token(config: KafkaConfig) -> str | None:
    path = config.kbroker.kbroker_http_token_file
    if path is None:
        return config.kbroker.kbroker_http_token
    name = "kbroker.http.token.file"
    try:
        with open(path, encoding="utf-8") as file:
            token = file.read(_MOST_TOKEN_BYTES).partition("\n")[0].strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"{name}: cannot read {path}: {reason}") from error
    if not token:
        raise ConfigError(f"{name}: the first line of {path} is empty")
    return token
