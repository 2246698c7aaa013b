"""The broker that a resource names: only the broker itself describes and alters its settings and
loggers.
"""

from __future__ import annotations

import re

from kbroker.config.config_values import MAX_INT
from kbroker.errors import ErrorCode, KafkaError

_INTEGER = re.compile(r"[+-]?[0-9]{1,99}")


def broker_id_in(name: str, noun: str = "Broker") -> int:
    """The id in a resource's name. Raises KafkaError INVALID_REQUEST."""
    number = int(name) if _INTEGER.fullmatch(name) else MAX_INT + 1
    if not -MAX_INT - 1 <= number <= MAX_INT:
        message = f"{noun} id must be an integer, but it is: {name}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    return number
