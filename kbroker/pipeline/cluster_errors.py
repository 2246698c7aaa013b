"""What a client of a cluster says, as the error that ends a job."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kbroker.client.connection import ClientError
from kbroker.pipeline.errors import ExitCode, PipelineError


@contextmanager
def cluster_errors() -> Iterator[None]:
    """Turn a ClientError into a PipelineError with the same sentence."""
    try:
        yield
    except ClientError as error:
        is_late = error.code is ExitCode.TIMEOUT  # who does not answer cannot be reached
        code = ExitCode.CANNOT_CONNECT if is_late else error.code
        raise PipelineError(error.sentence, code) from error
