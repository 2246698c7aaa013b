"""The operator's `--adopt`, and the refusal of what nobody asked for."""

from __future__ import annotations

from dataclasses import dataclass

from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import ExplainedError, Trouble


class AdoptionNeededError(ExplainedError):
    """The data is Apache Kafka's and nobody has agreed to take it over; the message is the
    sentence for the operator.
    """

    trouble = Trouble.ADOPT


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class AdoptOption:
    """The wish of an operator, by the value of `--adopt`."""

    config: KafkaConfig
    is_agreed: bool  # --adopt
    cluster_id: str | None = None  # the one a new cluster is to get

    @property
    def paths(self) -> list[str]:
        return list(self.config.log.data_directories())
