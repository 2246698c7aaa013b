"""Why a broker does not start, or cannot go on: always one sentence for its operator."""

from __future__ import annotations


class StartError(Exception):
    """The message says what is wrong, with which value, and what to do."""


class InconsistentClusterIdError(StartError):
    """The data directory belongs to another cluster than the tree."""


class BrokerIdInUseError(StartError):
    """Another broker with this id is registered."""
