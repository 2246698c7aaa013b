"""Tells by their names which settings of Kafka and Spark are secrets."""

from __future__ import annotations

import re

# Keys of options of Kafka and Spark, and of stores whose credentials Spark is given.
_SECRET = re.compile(
    r"password|passphrase|secret|token|jaas|credential|(access|account|api|private)[._-]?key|"
    r"ssl\.key(store\.key|\.pem)",
    re.IGNORECASE,
)


def names_secret(name: str) -> bool:
    """Return whether a setting's value must not show in plans, logs and lists of processes."""
    return _SECRET.search(name) is not None
