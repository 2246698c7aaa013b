"""Reasons why a broker does not start or cannot go on: one sentence each for its operator."""

from __future__ import annotations

from kbroker.errors import ExplainedError, Trouble


class StartError(ExplainedError):
    """The message says what is wrong, with which value, and what to do."""


class InconsistentClusterIdError(StartError):
    """The data directory belongs to another cluster than the tree."""

    trouble = Trouble.OTHER_BROKER


class BrokerIdInUseError(StartError):
    """Another broker with this id is registered."""

    trouble = Trouble.BROKER_ID_IN_USE
