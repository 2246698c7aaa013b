from __future__ import annotations

import pytest

from kbroker.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kbroker.protocol.messages.describe_configs import DescribeConfigsRequest
from kbroker.protocol.schema import (
    Message,
    Versions,
    first_flexible_version,
    message,
    message_spec,
    response_class,
    wire,
)


def test_spec_holds_what_the_declaration_says() -> None:
    spec = message_spec(DescribeConfigsRequest)

    assert (spec.name, spec.key) == ("DescribeConfigsRequest", 32)
    assert (spec.versions, spec.flexible) == (Versions(0, 4), Versions.parse("4+"))


def test_message_without_key_is_declared_for_records() -> None:
    @message(key=None, versions="0-1")
    class NoteValue(Message):
        text: str = wire("string", default="")

    assert message_spec(NoteValue).key is None
    assert not message_spec(NoteValue).flexible


@pytest.mark.parametrize(("key", "first"), [(18, 3), (32, 4), (999, None)])
def test_first_flexible_version_is_known_for_declared_requests(key: int, first: int | None) -> None:
    assert first_flexible_version(key) == first


def test_response_is_found_beside_its_request() -> None:
    assert response_class(ApiVersionsRequest) is ApiVersionsResponse
