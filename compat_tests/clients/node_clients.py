"""The Kafka libraries of Node: programs of `node/` and the packages they need."""

from __future__ import annotations

from pathlib import Path

from compat_tests.running.prerequisites import npm_packages

SOURCE = Path(__file__).parents[1] / "node"


def folder() -> Path:
    """A copy of `node/` in the cache of tests, beside the packages it needs."""
    return npm_packages(SOURCE)
