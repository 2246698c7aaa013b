"""Spark's long Java exceptions as one sentence with what to do."""

from __future__ import annotations

import re

from kbroker.pipeline.errors import PipelineError

_LONGEST = 300


def sentence_of_failure(error: Exception) -> PipelineError:
    """The error of a query as one sentence; the whole text is its cause."""
    text = str(error)
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return PipelineError(f"the Spark query failed: {re.sub(r' +', ' ', first)[:_LONGEST]}")
