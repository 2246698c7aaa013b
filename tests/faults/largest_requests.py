"""What the largest legal requests do to others: for every API and every array in it, a request of
8 MB full of that array, of entries that differ and of entries that are all the same, sent to a
broker of its own process while another client pings it; and by 20 clients at once. A client sends
its request again until two seconds are over.

    python -m tests.faults.largest_requests [--only Metadata,Fetch] [--clients 20] [--megabytes 8]
        [--newest]

Each line has the 99th percentile and the longest of the pings, in ms, and what the broker's
resident memory rose to above that at rest, in MB. A busy machine makes pings longer: compare with
the line of the broker at rest. `--newest` leaves out older versions and entries that are the same.
"""

from __future__ import annotations

import argparse
import multiprocessing
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from socket import MSG_WAITALL, create_connection, socket
from typing import Any

from kbroker.apis.large_requests import LARGEST_BYTES, MOST_AS_A_WHOLE, MOST_UNDECLARED
from kbroker.apis.request_parts import AS_A_WHOLE, parts_in
from kbroker.protocol.codec import encode
from kbroker.protocol.header import RequestHeader, encode_request_header
from kbroker.protocol.messages.api_versions import ApiVersionsRequest
from kbroker.protocol.part_decoder import MOST_BESIDE
from kbroker.protocol.part_encoder import ArrayInParts, encode_runs
from tests.faults.loop_holds import Case, cases
from tests.faults.running_broker import RunningBroker, read_answer

_SAMPLE = 64
_PING_EVERY_S = 0.002
_SECONDS = 2
_HEAD_BYTES = 64
_PART = 4_096


def largest_frame(case: Case, size_bytes: int, same: bool) -> tuple[bytes, int]:
    """The largest request of a case that is legal, without its size, and how many entries."""
    size_bytes = min(size_bytes, LARGEST_BYTES)
    sample = _encoded(case, 2 * _SAMPLE, same), _encoded(case, _SAMPLE, same)
    entry_bytes = max((len(sample[0]) - len(sample[1])) / _SAMPLE, 1)
    count = min(int((size_bytes - _HEAD_BYTES) / entry_bytes), _most_entries(case))
    frame = _encoded(case, count, same)
    while len(frame) > size_bytes:  # numbers take more digits than in the sample
        count = count * size_bytes // len(frame) - 1
        frame = _encoded(case, count, same)
    return frame, count


def _most_entries(case: Case) -> int:
    parts = parts_in(case.api.parts, case.api.request_class, case.version)
    most = case.most_entries()
    if parts is None:
        return min(most, MOST_UNDECLARED - _SAMPLE)
    if parts is AS_A_WHOLE:
        return min(most, MOST_AS_A_WHOLE // case.elements_each() - _SAMPLE)
    return min(most, MOST_BESIDE) if is_beside(case) else most


def is_beside(case: Case) -> bool:
    """Whether its array is in entries that are read in parts, and is whole in each."""
    parts = parts_in(case.api.parts, case.api.request_class, case.version)
    if parts is None or parts is AS_A_WHOLE:
        return False
    path = ".".join(field.name for field in case.path)
    return not parts.asked.startswith(path) and path.startswith(parts.asked.partition(".")[0])


def _encoded(case: Case, count: int, same: bool) -> bytes:
    """Written in parts, so that many entries take little memory here."""
    header = RequestHeader(case.api.key, case.version, 1, "c")
    request = case.request(1)
    holder = request
    for field in case.path[:-1]:
        (holder,) = getattr(holder, field.name)
    last = case.path[-1]
    if last.struct is None:
        entries = case.numbered(0, 1) * count if same else case.numbered(0, count)
        setattr(holder, last.name, entries)
    else:
        array = ArrayInParts(case.version, ())
        for start in range(0, count, _PART):
            size = min(_PART, count - start)
            array.add(case.numbered(0, 1) * size if same else case.numbered(start, size))
        setattr(holder, last.name, array.run())
    pieces: list[Any] = encode_runs(request, case.version, encode_request_header(header))
    return b"".join(pieces)


def _ping(port: int, told: Connection) -> None:
    """Ping until told to end; tell how long each took."""
    data = encode(ApiVersionsRequest(), 0, encode_request_header(RequestHeader(18, 0, 1, "p")))
    frame = struct.pack(">i", len(data)) + data
    while told.recv() is not None:
        took: list[float] = []
        with create_connection(("127.0.0.1", port)) as connection:
            while not told.poll():
                begin = time.perf_counter()
                connection.sendall(frame)
                read_answer(connection)
                took.append((time.perf_counter() - begin) * 1000)
                time.sleep(_PING_EVERY_S)
        told.recv()
        told.send(took)


@dataclass
class Seen:
    """What a broker's others saw during one case."""

    pings_ms: list[float]
    memory_mb: float
    answers: list[str]
    seconds: float

    def __str__(self) -> str:
        ordered = sorted(self.pings_ms) or [0.0]
        p99 = ordered[int(len(ordered) * 0.99)]
        return (
            f"{p99:8.1f} {ordered[-1]:8.1f} {self.memory_mb:8.0f} {self.seconds:7.1f}"
            f" {sorted(set(self.answers))!s:30.80}"
        )


class Others:
    """The client that pings, in a process of its own, and the look at the broker's memory."""

    def __init__(self, broker: RunningBroker) -> None:
        self.broker = broker
        self._told, theirs = multiprocessing.Pipe()
        self._process = multiprocessing.Process(
            target=_ping, args=(broker.port, theirs), daemon=True
        )
        self._process.start()
        time.sleep(0.5)
        self.rest_mb = broker.memory_mb()

    def see(self, frame: bytes, clients: int) -> Seen:
        """Have so many clients send the frame at once."""
        answers: list[str] = []
        threads = [
            threading.Thread(target=_send, args=(self.broker.port, frame, answers))
            for _ in range(clients)
        ]

        def work() -> None:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        if not threads:
            return self.see_until(partial(time.sleep, 3.0))
        seen = self.see_until(work)
        seen.answers = answers
        return seen

    def see_until(
        self, work: Callable[[], None], is_at_rest: Callable[[], bool] = lambda: True
    ) -> Seen:
        """Look on from the begin of some work until the broker is at rest after it."""
        worker = threading.Thread(target=work)
        self._told.send("begin")
        most_mb, begin = 0.0, time.monotonic()
        worker.start()
        while worker.is_alive() or not is_at_rest():
            most_mb = max(most_mb, self.broker.memory_mb())
            time.sleep(0.01)
        seconds = time.monotonic() - begin
        self._told.send("end")
        pings: list[float] = self._told.recv()
        return Seen(pings, most_mb - self.rest_mb, [], seconds)

    def end(self) -> None:
        """Ping no more."""
        self._told.send(None)
        self._process.join()


def _send(port: int, frame: bytes, answers: list[str]) -> None:
    """Send it, and again until the time is over."""
    end = time.monotonic() + _SECONDS
    try:
        with create_connection(("127.0.0.1", port), timeout=300) as connection:
            while True:
                connection.sendall(struct.pack(">i", len(frame)) + frame)
                answers.append(f"{_read_away(connection):,}")
                if time.monotonic() >= end:
                    return
    except (OSError, struct.error) as error:
        answers.append(f"{type(error).__name__}")


def _read_away(connection: socket) -> int:
    """Read an answer; return its size in bytes."""
    (size,) = struct.unpack(">i", connection.recv(4, MSG_WAITALL))
    left = size
    while left:
        received = len(connection.recv(min(left, 1 << 20)))
        if not received:
            raise ConnectionError("the answer ends early")
        left -= received
    return int(size)


def lines(options: argparse.Namespace, directory: str) -> Iterator[str]:
    """One for each case."""
    size_bytes = int(options.megabytes * 1_000_000)
    every = list(cases(options.only))
    newest = {case.api.key: case.version for case in every}
    broker = RunningBroker(
        Path(directory) / "data", "--override", "auto.create.topics.enable=false"
    ).start()
    others = Others(broker)
    yield f"{'p99 ms':>8} {'worst ms':>8} {'MB more':>8} {'s':>7} answers"
    yield f"{others.see(b'', 0)} at rest"
    for case in every:
        if options.newest and case.version < newest[case.api.key]:
            continue
        for same in (False,) if options.newest else (False, True):
            frame, count = largest_frame(case, size_bytes, same)
            seen = others.see(frame, options.clients)
            yield f"{seen} {len(frame):9,} bytes {count:9,} {'same' if same else 'apart'} {case}"
            if broker.process is None or broker.process.poll() is not None:
                yield f"THE BROKER ENDED: {broker.said()[-500:]}"
                return
    others.end()
    broker.end()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=float, default=8)
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--only")
    parser.add_argument("--newest", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        for line in lines(options, directory):
            print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
