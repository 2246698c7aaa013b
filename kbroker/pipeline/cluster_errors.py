"""The connection to a cluster for the questions of a job, with its failures as the error that ends
the job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TypeVar

from kbroker.client.client_error import ClientError, link_errors
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.record_sender import RecordSender
from kbroker.client.wall_clock import unix_now_ms
from kbroker.pipeline.errors import ExitCode, PipelineError

_T = TypeVar("_T")


@contextmanager
def cluster_links(bootstrap: str) -> Iterator[ClusterLinks]:
    """Yield the brokers of a cluster, and close their links. PipelineError for all that ends a
    question.
    """
    with cluster_errors(), link_errors(bootstrap), closing(ClusterLinks(bootstrap)) as links:
        yield links


@contextmanager
def cluster_errors() -> Iterator[None]:
    """Turn a ClientError into a PipelineError with the same sentence."""
    try:
        yield
    except ClientError as error:
        is_late = error.code is ExitCode.TIMEOUT  # a silent broker cannot be reached
        code = ExitCode.CANNOT_CONNECT if is_late else error.code
        raise PipelineError(error.sentence, code, error.trouble) from error


@contextmanager
def job_errors(bootstrap: str) -> Iterator[None]:
    """Turn what ends a job's links, and what a broker refuses, into the PipelineError that ends the
    job.
    """
    try:
        with link_errors(bootstrap):
            yield
    except ClientError as error:
        raise PipelineError(error.sentence, error.code, error.trouble) from error


def finish(sender: RecordSender, what: str) -> None:
    """Wait until everything is written. Raises PipelineError if it is refused."""
    sender.complete(unix_now_ms())
    sender.send_until(lambda: sender.is_idle)
    if sender.refusal is not None:
        raise PipelineError(f"{what} refuses records: {sender.refusal}")


def while_reachable(ask: Callable[[], _T], otherwise: _T) -> _T:
    """Return the answer, or `otherwise` if no broker can be reached, as while one restarts: that
    proves nothing, and Spark decides how long to wait. Raises PipelineError for all else.
    """
    try:
        return ask()
    except PipelineError as error:
        if error.code is not ExitCode.CANNOT_CONNECT:
            raise
        return otherwise
