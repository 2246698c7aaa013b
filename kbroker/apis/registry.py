"""The API keys that are served, their versions and their handlers.

A handler file is named as its API's key and registers itself with `@api`; nothing enumerates them.
The names of the files say what is served, the declarations of the messages in which versions: a
handler is imported when it is first asked for. Law: a request that is served gets its answer, even
if the process has no descriptor left for the handler's file (`keep_descriptor`), or that file is of
another release by then (`load`). ApiVersions, the table of docs/compatibility.md and the golden
tests are computed from this registry.
"""

from __future__ import annotations

import errno
import importlib
import os
import pkgutil
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, Protocol, TypeVar

from kbroker.apis.authorization import Need
from kbroker.apis.request_parts import Parts
from kbroker.peers.cluster_action import versions_for_clients
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.request import Request
from kbroker.protocol.schema import Message, Versions, request_class

Handler = Callable[..., Any]
Shown = Callable[[Any, Any, Any], bool]
"""(ctx, request, response): whether this broker shows what the response says was done."""
Exempt = Callable[[Any], bool]
"""(request): whether a broker asks, whom clients' quotas leave alone."""
HandlerT = TypeVar("HandlerT", bound=Handler)
T = TypeVar("T")


class KnownAnswers(Protocol):
    """Answers of one API, kept as bytes until something changes."""

    def find(self, services: Any, request: Request, /) -> bytes | None:
        """The message that answers an equal request; None if there was none since the change."""
        ...

    def last_change(self, services: Any, request: Request, /) -> object:
        """A token of the last change of what the answer to a request depends on; None if the
        answer is not to be kept.
        """
        ...

    def keep(self, services: Any, request: Request, answer: bytes, since: object, /) -> None:
        """Keep an answer that was begun after the change `since`."""
        ...


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Api:
    """One served API: its request class, the versions that work whole, and the handler."""

    key: int
    name: str
    request_class: type[Message]
    versions: Versions
    handler: Handler
    needs: tuple[Need, ...] = ()
    forwarded: Shown | None = None  # given if only the controller can answer
    parts: Parts | tuple[Parts, ...] | None = None  # alternatives for different versions
    exempt: Exempt | None = None  # given if brokers ask what clients ask, too
    known: KnownAnswers | None = None
    repeats: Any = False  # True, or a MakeShortcut (see `served_api`)


class Listed(NamedTuple):
    """An entry of ApiVersions: the versions for brokers, and those that clients see."""

    key: int
    versions: Versions
    for_clients: Versions


_apis: dict[int, Api] = {}


def api(
    request_class: type[Message],
    *needs: Need,
    forwarded: Shown | None = None,
    parts: Parts | tuple[Parts, ...] | None = None,
    exempt: Exempt | None = None,
    known: KnownAnswers | None = None,
    repeats: Any = False,
) -> Callable[[HandlerT], HandlerT]:
    """Register a handler `(ctx, request) -> NowOrLater[response]` for a request class.

    `needs` are the operations that a client must be authorized to. With `forwarded`, a broker that
    is not controller passes the request on to it, and answers once `forwarded` says that clients
    which ask this broker next will see what was done. With `parts`, a large request is answered
    part by part; without any it may have only few entries. What is `exempt` is not throttled. What
    is `known` (to KnownAnswers) is not read, unless somebody has to be asked. What a client
    `repeats` all the time is not decoded each time (see `lanes`): its handler keeps nothing of the
    request beyond the answer. Instead of True it may be a MakeShortcut (see `served_api`), whose
    shortcuts answer such requests in place of the handler.

    Raises ValueError for a key that is registered twice.
    """
    spec = request_class.spec

    def register(handler: HandlerT) -> HandlerT:
        if spec.key is None or spec.key in _apis:
            raise ValueError(
                f"{request_class.__name__}: no key, or key {spec.key} is registered already"
            )
        _apis[spec.key] = Api(
            spec.key,
            request_class.__name__.removesuffix("Request"),
            request_class,
            spec.served,
            handler,
            needs,
            forwarded,
            parts,
            exempt,
            known,
            repeats,
        )
        return handler

    return register


class ApiTable(Mapping[int, Api]):
    """The served APIs by key, in rising order; each is imported when it is first asked for."""

    __slots__ = ("_kept", "_late_rooms", "_listed", "_modules")

    def __init__(self, modules: Mapping[int, str]) -> None:
        """`modules` are the full names of the handlers' modules by key."""
        self._modules = dict(sorted(modules.items()))
        self._listed: tuple[Listed, ...] | None = None
        self._kept: int | None = None  # a descriptor
        self._late_rooms: Collection[str] = ()

    def __getitem__(self, key: int) -> Api:
        if key not in _apis:
            self.imported(lambda: importlib.import_module(self._modules[key]))
        return _apis[key]

    def __iter__(self) -> Iterator[int]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)

    def load(self, late_rooms: Collection[str] = ()) -> None:
        """Import the handlers that are not yet, which takes about 20 ms and a megabyte, and the
        modules that others would import later.
        """
        for key in self:
            self[key]
        for name in late_rooms:
            importlib.import_module(name)

    def keep_descriptor(self, late_rooms: Collection[str] = ()) -> None:
        """Keep a descriptor back, to `load` when there is no other. Raises OSError."""
        self._late_rooms = late_rooms
        if self._kept is None:
            self._kept = os.open(os.devnull, os.O_RDONLY)

    def listed(self) -> tuple[Listed, ...]:
        """Return an entry for each API that is served, built from the messages alone."""
        if self._listed is None:
            self._listed = self.imported(lambda: tuple(_listed(key) for key in self))
        return self._listed

    def imported(self, files: Callable[[], T]) -> T:
        """Return what a function makes that may import; without a descriptor left, with the help of
        the one that was kept. Raises OSError.
        """
        try:
            return files()
        except OSError as error:
            kept, self._kept = self._kept, None
            if kept is None or error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            os.close(kept)
            self.load(self._late_rooms)
            return files()


@cache
def registered() -> ApiTable:
    """The APIs that have a file in this package."""
    package = importlib.import_module(__package__ or "kbroker.apis")
    files = {module.name for module in pkgutil.iter_modules(package.__path__)}
    return ApiTable(
        {key: f"{package.__name__}.{key.module_name}" for key in ApiKey if key.module_name in files}
    )


def _listed(key: int) -> Listed:
    request = request_class(key)
    assert request is not None, "the tidy test holds a message file to each handler file"
    served = request.spec.served
    return Listed(key, served, versions_for_clients(key, served))
