"""What is lost of a damaged log after a clean stop: by Apache Kafka 3.9.2 more than the damage, here
the damage alone.

Asked of Kafka: an index that is missing beside a damaged batch, a last segment that ends at a batch
before the recovery point, leader epochs that cannot be read.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from compat_tests.running.apache_directories import ApacheBroker
from compat_tests.running.apache_kafka import ZOOKEEPER_LINE, jars
from compat_tests.running.prerequisites import NotAvailableError
from compat_tests.running.shared_zookeeper import fresh_chroot
from kbroker.log.disk.checkpoint import read_offset_checkpoint
from kbroker.log.disk.file_system import RealFileSystem
from kbroker.log.disk.format import RECOVERY_POINT_CHECKPOINT_FILE
from kbroker.log.partition.log import Log
from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.log.segments.file_records import FileRecords
from kbroker.log.segments.found_records import DamagedBatchError
from kbroker.model import TopicPartition
from tests.integration.apache_tree import write_tree
from tests.integration.directory_writer import DirectoryWriter, WallClock, open_logs, overrides

pytestmark = pytest.mark.java

INDEX, TORN, EPOCHS = (TopicPartition(topic, 0) for topic in ("index", "torn", "epochs"))
BATCHES = 40
SPOILED = "spoiled-epochs"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, WallClock]:
    """Three logs of several segments, one record a batch, stopped cleanly."""
    try:
        jars(ZOOKEEPER_LINE)
    except NotAvailableError as error:
        pytest.skip(str(error))
    root = tmp_path_factory.mktemp("stopped") / "data"
    writer = DirectoryWriter(root)
    for number in range(BATCHES):
        for place in (INDEX, TORN, EPOCHS):
            writer.append(place.topic, writer.records(1, f"{number}-" * 20), epoch=number // 15)
    writer.close()
    return root, writer.clock


def middle_of(partition: Path) -> Path:
    return sorted(partition.glob("*.log"))[1]


def damage(path: Path) -> int:
    """Flip a bit in the second batch of a data file; its offset."""
    _, (position, header), *_ = FileRecords(RealFileSystem(), str(path)).headers()
    content = bytearray(path.read_bytes())
    content[position + header.size_bytes - 1] ^= 1
    path.write_bytes(content)
    return header.base_offset


def tear(path: Path) -> None:
    """Cut the last two batches off."""
    positions = [position for position, _ in FileRecords(RealFileSystem(), str(path)).headers()]
    path.write_bytes(path.read_bytes()[: positions[-2]])


def opened_by_kafka(root: Path) -> ApacheBroker:
    """A broker that has started, if it could, and stopped."""
    connect = fresh_chroot()
    # What the tree says of epochs is read before they are spoiled.
    write_tree(connect, root, overrides(path.name[:-2] for path in root.glob("*-0")))
    if (root / SPOILED).exists():
        (root / SPOILED).rename(root / "epochs-0" / "leader-epoch-checkpoint")
    apache = ApacheBroker(root, connect)
    apache.start()
    apache.stop()
    return apache


def sizes(partition: Path) -> list[int]:
    return [path.stat().st_size for path in sorted(partition.glob("*.log"))]


def noted_end(root: Path, place: TopicPartition) -> int:
    path = root / RECOVERY_POINT_CHECKPOINT_FILE
    return read_offset_checkpoint(RealFileSystem(), str(path))[place]


def served(log: Log) -> list[int]:
    """Offsets whose batch is served."""
    found = []
    for offset in range(log.log_start_offset, log.log_end_offset):
        try:
            read = log.read(offset, 1, FetchIsolation.LOG_END, min_one_message=True)
        except DamagedBatchError:
            continue
        if read.records.read():
            found.append(offset)
    return found


def test_kafka_cuts_the_segment_of_a_missing_index_and_gives_lost_offsets_out_again(
    written: tuple[Path, WallClock], tmp_path: Path
) -> None:
    root = Path(shutil.copytree(written[0], tmp_path / "here"))
    middle = middle_of(root / "index-0")
    damaged = damage(middle)
    middle.with_suffix(".index").unlink()
    before = sizes(root / "index-0")
    tear(max((root / "torn-0").glob("*.log")))
    there = Path(shutil.copytree(root, tmp_path / "there"))

    complaints = opened_by_kafka(there).complaints()
    logs = open_logs(root, written[1])
    index, torn = logs.get_log(INDEX), logs.get_log(TORN)
    assert index is not None
    assert torn is not None
    found = served(index), served(torn)
    ends = index.log_end_offset, torn.log_end_offset
    logs.shutdown()

    # There all from the damaged batch to the next segment goes, and the torn log just ends earlier.
    first_offset = int(middle.stem)
    batch_bytes = before[1] // (
        int(sorted((root / "index-0").glob("*.log"))[2].stem) - first_offset
    )
    assert damaged == first_offset + 1
    assert sizes(there / "index-0")[1] < 2 * batch_bytes
    assert sizes(there / "index-0")[2:] == before[2:]
    assert (noted_end(there, INDEX), noted_end(there, TORN)) == (BATCHES, BATCHES - 2)
    assert not any("torn-0" in line for line in complaints)
    # Here the damaged batch alone is lost, and no offset is given twice.
    assert sizes(root / "index-0") == before
    assert found == ([at for at in range(BATCHES) if at != damaged], list(range(BATCHES - 2)))
    assert ends == (BATCHES, BATCHES)


def test_kafka_does_not_start_over_leader_epochs_that_cannot_be_read(
    written: tuple[Path, WallClock], tmp_path: Path
) -> None:
    root = Path(shutil.copytree(written[0], tmp_path / "here"))
    damaged = damage(middle_of(root / "epochs-0"))
    before = sizes(root / "epochs-0")
    there = Path(shutil.copytree(root, tmp_path / "there"))
    (there / SPOILED).write_text("0\n7\n")
    (root / "epochs-0" / "leader-epoch-checkpoint").write_text("0\n7\n")

    with pytest.raises(RuntimeError, match=r"all log dirs in .* have failed"):
        opened_by_kafka(there)
    logs = open_logs(root, written[1])
    log = logs.get_log(EPOCHS)
    assert log is not None
    found = served(log), log.leader_epoch_cache.entries
    logs.shutdown()

    assert found == ([at for at in range(BATCHES) if at != damaged], [(0, 0), (1, 15), (2, 30)])
    assert sizes(root / "epochs-0") == before
