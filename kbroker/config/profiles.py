"""Sets of defaults.

`dev` makes one broker usable at once, `prod` keeps Kafka's and loses nothing with the power.
"""

from __future__ import annotations

from collections.abc import Mapping

PROFILES: Mapping[str, Mapping[str, str]] = {
    # No advertised.listeners here: each client gets the address it connected to.
    "dev": {
        "broker.id": "0",
        "listeners": "PLAINTEXT://127.0.0.1:9092",
        "kbroker.http.listeners": "127.0.0.1:8080",
        "auto.create.topics.enable": "true",
        "default.replication.factor": "1",
        "min.insync.replicas": "1",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "5",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.num.partitions": "5",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
    },
    "prod": {"kbroker.flush": "acks-all"},
}
