"""Which API keys are served, in which versions, by which handler.

A handler file registers itself with `@api`; nothing enumerates them. ApiVersions, the README's
table and the golden tests are computed from this registry.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from kbroker.apis.large_requests import Parts
from kbroker.peers.cluster_action import Speaker
from kbroker.protocol.schema import Message, Versions, message_spec

Handler = Callable[..., Any]
Shown = Callable[[Any, Any, Any], bool]
"""(ctx, request, response): whether this broker shows what the response says was done."""
HandlerT = TypeVar("HandlerT", bound=Handler)


@dataclass(frozen=True, slots=True)
class Api:
    """One served API: its request class, the versions that work whole, and the handler."""

    key: int
    name: str
    request_class: type[Message]
    versions: Versions
    handler: Handler
    forwarded: Shown | None = None  # given where only the controller can answer
    speaker: Speaker = Speaker.ANYBODY
    parts: Parts | None = None


_apis: dict[int, Api] = {}


def api(
    request_class: type[Message],
    *,
    serves: str,
    forwarded: Shown | None = None,
    speaker: Speaker = Speaker.ANYBODY,
    parts: Parts | None = None,
) -> Callable[[HandlerT], HandlerT]:
    """Register a handler `(ctx, request) -> response` for a request class; it may be async where it
    waits.

    With `forwarded`, a broker that is not controller passes the request on to it, and answers once
    `forwarded` says that clients which ask this broker next will see what was done. With a
    `speaker`, nobody else is heard, and the API is not listed where none can be. With `parts`, a
    large request is answered part by part.

    Raises ValueError for a key that is registered twice, or a version that the message does not
    declare.
    """
    spec = message_spec(request_class)
    versions = Versions.parse(serves)

    def register(handler: HandlerT) -> HandlerT:
        if spec.key is None or spec.key in _apis:
            raise ValueError(
                f"{request_class.__name__}: no key, or key {spec.key} is registered already"
            )
        if not spec.versions.contains(versions):
            raise ValueError(
                f"{request_class.__name__} declares {spec.versions}, cannot serve {versions}"
            )
        _apis[spec.key] = Api(
            spec.key,
            request_class.__name__.removesuffix("Request"),
            request_class,
            versions,
            handler,
            forwarded,
            speaker,
            parts,
        )
        return handler

    return register


def registered() -> dict[int, Api]:
    """The APIs registered so far, by key in rising order."""
    return dict(sorted(_apis.items()))


def load() -> dict[int, Api]:
    """Import every handler module of this package and return the APIs by key."""
    package = importlib.import_module(__package__ or "kbroker.apis")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return registered()
