"""Schemas of parsed values: chosen by topic, kept for ever."""

from __future__ import annotations

import pytest

from kbroker.pipeline.archiving.tasks.json_columns import JsonSchemas
from kbroker.pipeline.errors import ExitCode, PipelineError

SCHEMAS = JsonSchemas({"t": "T"}, "D")


def test_a_topic_has_its_own_schema_or_that_of_all() -> None:
    assert SCHEMAS.checked(["t", "u"], {}) == {"t": "T", "u": "D"}
    assert JsonSchemas().checked(["t"], {}) == {}


def test_a_topic_may_get_a_schema_later() -> None:
    assert SCHEMAS.checked(["t"], {"u": "other"}) == {"t": "T"}


@pytest.mark.parametrize(("schemas", "now"), [(SCHEMAS, "T"), (JsonSchemas(), "none")])
def test_a_schema_does_not_change(schemas: JsonSchemas, now: str) -> None:
    sentence = f"topic t is archived with the JSON schema S, and now it is {now}: keep the schema"

    with pytest.raises(PipelineError, match=sentence) as caught:
        schemas.checked(["t"], {"t": "S"})

    assert caught.value.code is ExitCode.USAGE
