"""Console: what screens and operations ask, and what they may do."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from kbroker.console.consoled_cluster import ConsoledCluster
from kbroker.console.web.follows import Follows
from kbroker.console.web.sampling import Sampling
from kbroker.console.web.views import BrokerViews

_MOST_NOTES: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleOptions:
    """The options of a console: nothing can be changed with `read_only`, and with `no_messages` no
    content of messages is shown.
    """

    read_only: bool = False
    no_messages: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry of the navigation; `key` is the letter that leads there after a g."""

    title: str
    path: str
    key: str


class Notes:
    """Sentences about what was done, for the page after it. The page names them by an id, so that
    an address from elsewhere cannot put words there. Owned by the loop of the web server.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[str, ...]] = OrderedDict()

    def keep(self, sentences: Sequence[str]) -> str:
        """Keep sentences until they are looked at, and return their id."""
        name = secrets.token_urlsafe(8)
        self._kept[name] = tuple(sentences)
        while len(self._kept) > _MOST_NOTES:
            self._kept.popitem(last=False)
        return name

    def take(self, name: str) -> tuple[str, ...]:
        """Return the sentences of an id, once."""
        return self._kept.pop(name, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Console:
    """A console: the cluster that it asks, its options, and what only the broker knows that serves
    it, if one does.
    """

    cluster: ConsoledCluster
    options: ConsoleOptions = field(default_factory=ConsoleOptions)
    views: BrokerViews | None = None
    navigation: tuple[Entry, ...] = ()
    user: str | None = None  # who has logged in, and can log out
    notes: Notes = field(default_factory=Notes)
    follows: Follows = field(default_factory=Follows)
    sampling: Sampling = field(default_factory=Sampling)

    @property
    def may_write(self) -> bool:
        """Whether anything may be changed."""
        return not self.options.read_only
