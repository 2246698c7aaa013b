"""What tests of transactions need of a broker."""

from __future__ import annotations

import pytest

from compat_tests.transactions.runner import serves_transactions


@pytest.fixture(scope="session")
def transactions(bootstrap: str) -> None:
    """Skips where a broker does not say what transactions it has."""
    if not serves_transactions(bootstrap):
        pytest.skip("the broker serves no transactions")
