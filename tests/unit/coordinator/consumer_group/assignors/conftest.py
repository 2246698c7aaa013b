"""Assignors ask no replicas: their tests run once."""

from __future__ import annotations

import pytest


@pytest.fixture
def replication() -> None:
    """None."""
