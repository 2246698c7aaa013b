"""Groups keep their laws while they change their protocol, whatever fails: see
protocol_change_simulation, which goes on as a script.
"""

from __future__ import annotations

import pytest

from tests.faults.protocol_change_bugs import PLANTED, Mistake
from tests.faults.protocol_change_simulation import HISTORIES

# Each mistake is looked for where the hunt finds it first; after a change of the hunt it goes on.
FIRST_SEEDS = {"assignments_forgotten": 30, "group_not_brought_back": 5}
ENOUGH_SEEDS = 40


def test_a_group_changes_its_protocol_and_every_member_reads_its_share() -> None:
    assert list(HISTORIES.violations(range(1, 8))) == []


@pytest.mark.parametrize("mistake", PLANTED, ids=lambda mistake: mistake.__name__)
def test_a_planted_mistake_is_found(mistake: Mistake) -> None:
    with mistake():
        first = FIRST_SEEDS.get(mistake.__name__, 1)
        assert next(HISTORIES.violations(range(first, first + ENOUGH_SEEDS)), None)
