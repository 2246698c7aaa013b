"""Topic ids by `inter.broker.protocol.version` (KIP-516), the lowest release that any broker of the
cluster may have.
"""

from __future__ import annotations

from typing import Final

from kbroker.config.message_format import version_numbers

_FIRST_WITH_TOPIC_IDS: Final = (2, 8)
_FIRST_THAT_FETCHES_BY_ID: Final = (3, 1)


def gives_topic_ids(inter_broker_protocol_version: str) -> bool:
    """Whether topics get ids. Below that version, Kafka's controllers neither send ids nor keep
    them in the tree, and to clients and logs a topic whose id changes is another topic.
    """
    return version_numbers(inter_broker_protocol_version) >= _FIRST_WITH_TOPIC_IDS


def fetches_by_topic_id(inter_broker_protocol_version: str) -> bool:
    """Whether leaders know topics by their ids. Below that version, a Kafka leader may have
    received none.
    """
    return version_numbers(inter_broker_protocol_version) >= _FIRST_THAT_FETCHES_BY_ID
