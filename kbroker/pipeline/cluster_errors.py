"""What a client of a cluster says, as the error that ends a job."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kbroker.client.connection import ClientError
from kbroker.pipeline.errors import ExitCode, PipelineError

_KNOWN = (ExitCode.ITEM_FAILED, ExitCode.USAGE)  # no answer in time: it cannot be reached


@contextmanager
def cluster_errors() -> Iterator[None]:
    """Turn a ClientError into a PipelineError with the same sentence."""
    try:
        yield
    except ClientError as error:
        code = ExitCode(error.code) if error.code in _KNOWN else ExitCode.CANNOT_CONNECT
        raise PipelineError(error.sentence, code) from error
