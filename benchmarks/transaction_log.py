"""How long a start takes over a `__transaction_state` of a million records."""

from __future__ import annotations

import shutil
import struct
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from benchmarks.loads import Figures, Load
from benchmarks.processes import RunningBroker, rss_mib_of
from compat_tests.conftest import BrokerProcess
from compat_tests.running.apache_directories import ApacheBroker
from compat_tests.transactions.requests import DESCRIBE_TRANSACTIONS
from compat_tests.transactions.runner import warm_up
from compat_tests.wire.wire_client import WireClient
from kbroker.record import record_batch

_SETTINGS = {
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
}
_LOG = Path("__transaction_state-0", "00000000000000000000.log")
_BATCH = struct.Struct(">qi")
_IN_A_BATCH = 100
_ONGOING, _PREPARED, _COMMITTED = 1, 2, 4
_PATIENCE_S = 600.0


def loading(*, ids: int, records: int = 1_000_000) -> Load:
    """From the start of the process until clients can come, and until the coordinator knows the id
    that was written last. A broker of its own, whose log is written by hand while it is stopped.
    """

    def load(like: RunningBroker) -> Figures:
        folder = Path(tempfile.mkdtemp(prefix="transaction-log-"))
        broker: BrokerProcess | ApacheBroker
        if like.name == "kbroker":
            overrides = [x for item in _SETTINGS.items() for x in ("--override", "=".join(item))]
            broker = BrokerProcess(folder / "data", tuple(overrides))
        else:
            broker = ApacheBroker(folder / "data", settings=_SETTINGS)
        try:
            broker.start()
            warm_up(broker.bootstrap)
            broker.stop()
            _write(broker.data, records, ids)
            begun = time.perf_counter()
            broker.start()
            served = time.perf_counter() - begun
            _await_loaded(broker.bootstrap, f"id-{ids - 1}")
            loaded = time.perf_counter() - begun
            assert broker.process is not None
            figures = {
                "start_s": served, "loaded_s": loaded, "rss_mib": rss_mib_of(broker.process.pid)
            }  # fmt: skip
            broker.stop()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return figures

    return load


def _write(data: Path, records: int, ids: int) -> None:
    """Append them as a broker would have; it looks at the whole log at its next start."""
    log = data / _LOG
    offset = _end_offset(log.read_bytes())
    with log.open("ab") as file:
        for first in range(0, records, _IN_A_BATCH):
            numbers = range(first, first + _IN_A_BATCH)
            options = record_batch.BatchOptions(partition_leader_epoch=0)
            content = record_batch.build(
                _records(numbers, ids, offset, records // ids - 1),
                base_offset=offset,
                options=options,
            )
            file.write(content)
            offset += _IN_A_BATCH
    with suppress(FileNotFoundError):
        (data / ".kafka_cleanshutdown").unlink()


def _records(
    numbers: range, ids: int, offset: int, last_turn: int
) -> Iterator[record_batch.Record]:
    """Transactions of all ids in turn: each record is the next state of its id; at the end all are
    over.
    """
    now_ms = int(time.time() * 1000)
    for place, number in enumerate(numbers):
        turn, which = divmod(number, ids)
        name = f"id-{which}".encode()
        state = (_ONGOING, _PREPARED, _COMMITTED)[turn % 3] if turn < last_turn else _COMMITTED
        topic = b"\0\5topic" + struct.pack(">iii", 2, 0, 1)
        partitions = struct.pack(">i", 0 if state == _COMMITTED else 1)
        partitions += b"" if state == _COMMITTED else topic
        value = struct.pack(">hqhib", 0, 5_000 + which, 3, 60_000, state)
        value += partitions + struct.pack(">qq", now_ms, now_ms)
        key = struct.pack(">hh", 0, len(name)) + name
        yield record_batch.Record(offset + place, now_ms, key, value, ())


def _end_offset(log: bytes) -> int:
    at = end = 0
    while at < len(log):
        base, length = _BATCH.unpack_from(log, at)
        (last,) = struct.unpack_from(">i", log, at + 23)
        at, end = at + 12 + length, base + last + 1
    return end


def _await_loaded(bootstrap: str, name: str) -> None:
    client = WireClient(bootstrap)
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        (found,) = client.call(
            DESCRIBE_TRANSACTIONS, 0, transactional_ids=[name]
        ).transaction_states
        if found.error_code.value == 0:
            client.close()
            return
        assert found.error_code.name in ("coordinator_load_in_progress", "not_coordinator"), found
        assert time.monotonic() < deadline, "it does not load its log"
