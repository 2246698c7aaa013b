"""What `inter.broker.protocol.version` says of topic ids (KIP-516). It is the lowest release that a
broker of the cluster may be of.
"""

from __future__ import annotations

from typing import Final

from kbroker.config.message_format import version_numbers

_FIRST_WITH_TOPIC_IDS: Final = (2, 8)
_FIRST_THAT_FETCHES_BY_ID: Final = (3, 1)


def gives_topic_ids(inter_broker_protocol_version: str) -> bool:
    """Whether topics get ids. Below, controllers of Kafka neither tell them nor keep them in the
    tree, and a topic whose id changes is another topic to clients and logs.
    """
    return version_numbers(inter_broker_protocol_version) >= _FIRST_WITH_TOPIC_IDS


def fetches_by_topic_id(inter_broker_protocol_version: str) -> bool:
    """Whether leaders know topics by their ids: below, those of Kafka may have been told none."""
    return version_numbers(inter_broker_protocol_version) >= _FIRST_THAT_FETCHES_BY_ID
