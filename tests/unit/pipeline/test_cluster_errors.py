from __future__ import annotations

import pytest

from kbroker.client.client_error import ClientError
from kbroker.pipeline.cluster_errors import cluster_errors
from kbroker.pipeline.errors import ExitCode, PipelineError


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ExitCode.ITEM_FAILED, ExitCode.ITEM_FAILED),
        (ExitCode.USAGE, ExitCode.USAGE),
        (ExitCode.CANNOT_CONNECT, ExitCode.CANNOT_CONNECT),
        (ExitCode.TIMEOUT, ExitCode.CANNOT_CONNECT),
    ],
)
def test_the_sentence_of_a_client_ends_a_job_with_its_code(
    code: ExitCode, expected: ExitCode
) -> None:
    with pytest.raises(PipelineError) as refused, cluster_errors():
        raise ClientError("the broker is away", code)

    assert (refused.value.sentence, refused.value.code) == ("the broker is away", expected)
