from __future__ import annotations

import pytest

from kbroker.client.connection import (
    EXIT_CANNOT_CONNECT,
    EXIT_ITEM_FAILED,
    EXIT_TIMEOUT,
    EXIT_USAGE,
    ClientError,
)
from kbroker.pipeline.cluster_errors import cluster_errors
from kbroker.pipeline.errors import ExitCode, PipelineError


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (EXIT_ITEM_FAILED, ExitCode.ITEM_FAILED),
        (EXIT_USAGE, ExitCode.USAGE),
        (EXIT_CANNOT_CONNECT, ExitCode.CANNOT_CONNECT),
        (EXIT_TIMEOUT, ExitCode.CANNOT_CONNECT),
    ],
)
def test_the_sentence_of_a_client_ends_a_job_with_its_code(code: int, expected: ExitCode) -> None:
    with pytest.raises(PipelineError) as refused, cluster_errors():
        raise ClientError("the broker is away", code)

    assert (refused.value.sentence, refused.value.code) == ("the broker is away", expected)
