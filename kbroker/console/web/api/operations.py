"""All operations of the API. A new module of operations is one more row here."""

from __future__ import annotations

from typing import Final

from kbroker.console.web.api import (
    access_operations,
    chart_operations,
    client_operations,
    cluster_operations,
    event_operations,
    group_operations,
    message_operations,
    topic_operations,
    transaction_operations,
)
from kbroker.console.web.api.operation import Operation

OPERATIONS: Final[tuple[Operation, ...]] = (
    *cluster_operations.OPERATIONS,
    *topic_operations.OPERATIONS,
    *group_operations.OPERATIONS,
    *transaction_operations.OPERATIONS,
    *access_operations.OPERATIONS,
    *event_operations.OPERATIONS,
    *message_operations.OPERATIONS,
    *client_operations.OPERATIONS,
    *chart_operations.OPERATIONS,
)
