"""What a client of a cluster says, as the error that ends a job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from kbroker.client.connection import ClientError
from kbroker.pipeline.errors import ExitCode, PipelineError

_T = TypeVar("_T")


@contextmanager
def cluster_errors() -> Iterator[None]:
    """Turn a ClientError into a PipelineError with the same sentence."""
    try:
        yield
    except ClientError as error:
        is_late = error.code is ExitCode.TIMEOUT  # who does not answer cannot be reached
        code = ExitCode.CANNOT_CONNECT if is_late else error.code
        raise PipelineError(error.sentence, code, error.trouble) from error


def while_reachable(ask: Callable[[], _T], otherwise: _T) -> _T:
    """Return the answer, or `otherwise` where no broker can be reached, as while one restarts: that
    proves nothing, and Spark decides how long to wait. Raises PipelineError for all else.
    """
    try:
        return ask()
    except PipelineError as error:
        if error.code is not ExitCode.CANNOT_CONNECT:
            raise
        return otherwise
