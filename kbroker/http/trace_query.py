"""Filters of requests as the query of a URL names them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kbroker.near_names import did_you_mean
from kbroker.protocol.api_keys import ApiKey
from kbroker.tracing.trace_filter import TraceFilter


def trace_filter_of(query: Mapping[str, Sequence[str]]) -> TraceFilter:
    """Read a filter, as `TraceFilter.of`, and refuse APIs that no request could ever be of.

    Raises ValueError with a sentence.
    """
    wanted = TraceFilter.of(query)
    names = [key.name.replace("_", "").lower() for key in ApiKey]
    if wanted.apis and not any(map(wanted.apis.fits, names)):
        given = query["api"][0][:100]
        raise ValueError(f"there is no API {given!a}{did_you_mean(given, names)}")
    return wanted
