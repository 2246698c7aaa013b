from __future__ import annotations

import pytest


@pytest.fixture
def brokers() -> int:
    return 2
