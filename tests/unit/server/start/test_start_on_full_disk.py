"""A broker alone that is started on a full disk, where its metadata is, too."""

from __future__ import annotations

from kbroker.config.kafka_config import KafkaConfig
from kbroker.log.directories.room_at_start import ROOM_BYTES
from kbroker.server.broker.kafka_server import KafkaServer
from tests.fakes.disks.memory_file_system import MemoryFileSystem

DATA = "/data"
DELETED = f"{DATA}/sales-0.4f1d9c2b8a7e4d3f9b6a5c4d3e2f1a0b-delete"


def _server(disk: MemoryFileSystem) -> KafkaServer:
    given = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": DATA, "broker.id": "0"}
    return KafkaServer(KafkaConfig.for_profile("dev", given), file_system=disk)


async def _start_and_stop(disk: MemoryFileSystem) -> None:
    server = _server(disk)
    await server.startup()
    await server.shutdown()


async def _with_a_deleted_partition() -> MemoryFileSystem:
    disk = MemoryFileSystem()
    await _start_and_stop(disk)
    disk.make_directory(DELETED)
    disk.write_bytes(f"{DELETED}/00000000000000000000.log", bytes(2 * ROOM_BYTES))
    return disk


async def test_what_was_deleted_on_a_full_disk_gives_its_room_to_the_start() -> None:
    disk = await _with_a_deleted_partition()
    disk.capacity_bytes = disk.used_bytes
    await _start_and_stop(disk)
    assert not disk.exists(DELETED)


async def test_where_there_is_room_what_was_deleted_waits_for_its_time() -> None:
    disk = await _with_a_deleted_partition()
    disk.capacity_bytes = disk.used_bytes + ROOM_BYTES
    server = _server(disk)
    await server.startup()
    assert disk.exists(DELETED)
    await server.shutdown()
