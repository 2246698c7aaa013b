"""Whatever somebody does to the tree by hand, there is a controller afterwards, and it works."""

from __future__ import annotations

import logging

import pytest

from kbroker.controller import kafka_controller
from kbroker.controller.channels import controller_channel_manager
from tests.faults.hand_edits import hunt


@pytest.mark.parametrize("first_seed", [15, 101, 201, 301])
def test_a_tree_edited_by_hand_keeps_no_controller_from_working(
    first_seed: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for module, name in (
        (kafka_controller, "GIVE_UP_BACKOFF_S"),
        (kafka_controller, "RETRY_BACKOFF_S"),
        (controller_channel_manager, "RETRY_BACKOFF_S"),
    ):
        monkeypatch.setattr(module, name, 0.0)
    caplog.set_level(logging.CRITICAL)
    logging.getLogger("kbroker").setLevel(logging.ERROR)
    try:
        assert hunt(first_seed, rounds=12) == []
    finally:
        logging.getLogger("kbroker").setLevel(logging.NOTSET)
