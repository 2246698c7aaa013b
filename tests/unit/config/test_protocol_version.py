from __future__ import annotations

import pytest

from kbroker.config.protocol_version import fetches_by_topic_id, gives_topic_ids


@pytest.mark.parametrize(
    ("protocol", "are_given", "are_asked_for"),
    [
        ("2.6", False, False),
        ("2.7-IV2", False, False),
        ("2.8", True, False),
        ("3.0-IV1", True, False),
        ("3.1-IV0", True, True),
        ("3.9", True, True),
    ],
)
def test_topics_have_ids_since_28_and_followers_ask_by_them_since_31(
    protocol: str, are_given: bool, are_asked_for: bool
) -> None:
    assert gives_topic_ids(protocol) is are_given
    assert fetches_by_topic_id(protocol) is are_asked_for
