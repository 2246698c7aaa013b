"""The services of transactions, as far as a test has them."""

from __future__ import annotations

from typing import Any, NamedTuple


class Transactional(NamedTuple):
    """See TransactionalServices."""

    coordinator: Any = None
    markers: Any = None
    participation: Any = None
