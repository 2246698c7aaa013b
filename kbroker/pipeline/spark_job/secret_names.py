"""Which settings of Kafka and Spark let somebody in, by their names."""

from __future__ import annotations

import re

# Keys of options of Kafka and Spark, and of stores that Spark is given the keys of.
_SECRET = re.compile(
    r"password|passphrase|secret|token|jaas|credential|(access|account|api|private)[._-]?key|"
    r"ssl\.key(store\.key|\.pem)",
    re.IGNORECASE,
)


def names_secret(name: str) -> bool:
    """Whether the value of a setting is to be kept from others: from plans, logs and the list of
    processes.
    """
    return _SECRET.search(name) is not None
