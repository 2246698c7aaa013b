"""AlterPartition as the controller judges it: only what was decided on today's state is written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kbroker.controller.state_machines.isr_change import is_done_already, refused_isr_change
from kbroker.errors import ErrorCode
from kbroker.model import RECOVERED, RECOVERING, LeaderAndIsr

CURRENT = LeaderAndIsr(leader=1, leader_epoch=5, isr=(1,), partition_epoch=9)
LIVE = {1, 2}


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (replace(CURRENT, isr=(1, 2)), ErrorCode.NONE),
        (replace(CURRENT, isr=(1, 2), partition_epoch=10), ErrorCode.NOT_CONTROLLER),
        (replace(CURRENT, isr=(1, 2), leader_epoch=6), ErrorCode.NOT_CONTROLLER),
        (replace(CURRENT, isr=(1, 2), leader_epoch=4), ErrorCode.FENCED_LEADER_EPOCH),
        (replace(CURRENT, isr=(1, 2), partition_epoch=8), ErrorCode.INVALID_UPDATE_VERSION),
        (replace(CURRENT, isr=(1, 3)), ErrorCode.INELIGIBLE_REPLICA),
        (replace(CURRENT, isr=(2,)), ErrorCode.INVALID_REQUEST),
        (replace(CURRENT, isr=(1, 2), leader=2), ErrorCode.INVALID_REQUEST),
        (replace(CURRENT, leader_recovery_state=RECOVERING), ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_change_is_written_only_over_the_state_it_was_decided_on(
    wanted: LeaderAndIsr, code: ErrorCode
) -> None:
    assert refused_isr_change(CURRENT, wanted, LIVE) is code


def test_a_leader_that_recovers_does_so_before_others_join() -> None:
    recovering = replace(CURRENT, leader_recovery_state=RECOVERING)
    both = replace(recovering, isr=(1, 2))
    assert refused_isr_change(recovering, both, LIVE) is ErrorCode.INVALID_REQUEST
    recovered = replace(both, leader_recovery_state=RECOVERED)
    assert refused_isr_change(recovering, recovered, LIVE) is ErrorCode.NONE


def test_a_change_that_is_there_already_is_done_whatever_version_it_names() -> None:
    assert is_done_already(CURRENT, replace(CURRENT, partition_epoch=3))
    assert not is_done_already(CURRENT, replace(CURRENT, partition_epoch=10))
    assert not is_done_already(CURRENT, replace(CURRENT, isr=(1, 2)))
    assert not is_done_already(CURRENT, replace(CURRENT, leader_epoch=4))
