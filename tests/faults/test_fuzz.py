"""Readers take the corpus, and some mutations of it, without an error that they do not declare; the
fuzzing as a script goes on (see fuzz).
"""

from __future__ import annotations

import pytest

from tests.faults.fuzz import fuzz, kept
from tests.faults.fuzz_targets import TARGETS

MUTATIONS = 2_000


@pytest.mark.parametrize("name", TARGETS)
def test_what_strangers_send_and_disks_hold_is_refused_as_declared(name: str) -> None:
    outcome = fuzz([name], MUTATIONS, seed=1)

    assert outcome.findings == []
    assert outcome.mutations == MUTATIONS
    assert kept(name), "nothing was kept of earlier runs"
