"""The short form of `python -m tests.integration.assignments`."""

from __future__ import annotations

import pytest

from compat_tests.running.prerequisites import NotAvailableError
from tests.fakes.generated_groups import history
from tests.integration.assignments import ours, theirs


@pytest.mark.java
def test_members_get_what_apache_kafkas_assignors_give_them() -> None:
    groups = [history(seed) for seed in range(1_000, 1_200)]

    try:
        found = theirs(groups)
    except NotAvailableError as error:
        pytest.skip(str(error))
    assert [ours(steps) for steps in groups] == found
