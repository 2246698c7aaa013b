"""Opens the logs of all data directories at start: each directory by threads of its own.

Law: a log that cannot be opened does not affect the others, so that one broken file costs one
partition. The outcomes come in the order of the requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace

from kbroker.errors import KafkaError
from kbroker.log.disk.checkpoint import CheckpointError
from kbroker.log.disk.file_system import FileSystem, StorageError
from kbroker.log.disk.format import LOG_SUFFIX, offset_of
from kbroker.log.partition.log import Log
from kbroker.log.partition.log_state import LogEnvironment
from kbroker.log.recovery.load_progress import LoadProgress
from kbroker.log.recovery.load_request import LoadRequest
from kbroker.log.recovery.log_loader import load_log

Outcome = Log | StorageError | CheckpointError | KafkaError


def open_logs(
    by_directory: Sequence[tuple[str, Sequence[LoadRequest]]],
    environment: LogEnvironment,
    threads_per_directory: int,
    progress: LoadProgress,
) -> list[Outcome]:
    """Open every log, or say why its files cannot be used. Raises LoadCancelledError."""
    for path, requests in by_directory:
        unclean = [request for request in requests if not request.was_clean]
        size_bytes = sum(_bytes_to_recover(environment.file_system, r) for r in unclean)
        progress.expect(path, len(requests), size_bytes)

    def open_log(path: str, request: LoadRequest) -> Outcome:
        try:
            log = load_log(replace(request, on_recovered=progress.meter(path)), environment)
            if request.config.is_compacted and request.cleaned_offset:
                log.offsets.cleaned_to(request.cleaned_offset)
            return log
        except (StorageError, CheckpointError, KafkaError) as error:
            return error
        finally:
            progress.log_done(path)

    used = [(path, requests) for path, requests in by_directory if requests]
    if len(used) <= 1 and threads_per_directory == 1:
        return [open_log(path, request) for path, requests in used for request in requests]
    return list(_in_threads(used, open_log, threads_per_directory))


def _in_threads(
    by_directory: Sequence[tuple[str, Sequence[LoadRequest]]],
    open_log: Callable[[str, LoadRequest], Outcome],
    threads_per_directory: int,
) -> Iterator[Outcome]:
    with ExitStack() as stack:
        waiting: list[Future[Outcome]] = []
        for path, requests in by_directory:
            executor = ThreadPoolExecutor(threads_per_directory, "log-recovery")
            stack.callback(executor.shutdown, cancel_futures=True)
            waiting += [executor.submit(open_log, path, request) for request in requests]
        for future in waiting:
            yield future.result()


def _bytes_to_recover(file_system: FileSystem, request: LoadRequest) -> int:
    """Size of the segments from the recovery point on; 0 if they cannot be looked at."""
    try:
        bases = sorted(
            base
            for name in file_system.list(request.directory)
            if name.endswith(LOG_SUFFIX) and (base := offset_of(name)) is not None
        )
        first = max((base for base in bases if base <= request.recovery_point), default=0)
        return sum(
            file_system.size(f"{request.directory}/{base:020d}{LOG_SUFFIX}")
            for base in bases
            if base >= first
        )
    except StorageError:
        return 0
