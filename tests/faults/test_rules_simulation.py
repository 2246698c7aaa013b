"""Brokers that share access rules never decide by others than those in the tree: see
rules_simulation, which goes on as a script.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.fakes.running.virtual_loop import VirtualLoop
from tests.faults.rules_bugs import (
    PLANTED,
    Mistake,
)
from tests.faults.rules_clients import RulesClients
from tests.faults.rules_model import RulesModel, Seen
from tests.faults.rules_simulation import hunt

STEPS = 40
ENOUGH_SEEDS = 120


def test_no_right_is_kept_or_lost_while_brokers_sessions_and_notifications_fail() -> None:
    outcome = hunt(range(1, 21), STEPS)

    assert outcome.violations == []
    assert min(outcome.counts[each] for each in ("passed", "refused", "changes")) > 100


@pytest.mark.parametrize("mistake", PLANTED, ids=lambda mistake: mistake.__name__)
def test_a_planted_mistake_is_found(mistake: Mistake) -> None:
    with mistake():
        outcome = hunt(range(1, 1 + ENOUGH_SEEDS), STEPS, stops=True)

    assert outcome.violations, f"{outcome.seeds} seeds found nothing"
    kinds = {violation.kind for _, violation in outcome.violations}
    assert not kinds & {"unexpected error", "stuck"}, outcome.violations


def test_topics_and_rules_are_there_before_anything_else_happens() -> None:
    outcome = hunt(range(1, 5), steps=0)

    assert outcome.violations == []
    assert outcome.counts["changes"] > 0


def test_who_was_controller_for_a_moment_may_have_let_a_request_pass() -> None:
    loop = VirtualLoop()
    model = RulesModel(loop.time)
    model.begin(notice_s=1.0)
    process = object()
    model.seen[process] = Seen([], (), (), since=0.0, reigned_at=5.0)  # type: ignore[index]
    passed = RulesClients(Random(1), loop, model).has_passed

    assert passed(process, 4.0, lambda _view: False)  # type: ignore[arg-type]
    assert not passed(process, 5.5, lambda _view: False)  # type: ignore[arg-type]
