"""Compares one file of an archive with its manifest."""

from __future__ import annotations

from fastcrc.crc32 import iscsi as crc32c

from kbroker.inspection.finding import Finding
from kbroker.log.disk.file_system import File, FileSystem, RealFileSystem
from kbroker.pipeline.archiving.manifests.manifest import FileEntry
from kbroker.pipeline.finding_codes import AuditCode

_READ_BYTES = 8 * 1024 * 1024


def check_file(path: str, entry: FileEntry, disk: FileSystem | None = None) -> Finding | None:
    """Read a whole file of the archive in `path` and return what is wrong with it; None if it is as
    it was written. Raises StorageError if the disk refuses.
    """
    file_system = disk or RealFileSystem()
    name, first = f"{path}/{entry.path}", entry.first_offset
    if not file_system.exists(name):
        what = f"is not there, with {entry.rows} records of {entry.topic_partition}"
        return AuditCode.ARCHIVE_FILE_MISSING.finding(name, what, offset=first)
    size = file_system.size(name)
    if size != entry.size_bytes:
        what = f"has {size} bytes, and was written with {entry.size_bytes}"
        return AuditCode.ARCHIVE_FILE_SIZE.finding(name, what, offset=first, position=size)
    checksum = file_checksum(name, file_system)
    if checksum != entry.checksum:
        what = f"has other content than was written: {checksum}, and not {entry.checksum}"
        return AuditCode.ARCHIVE_FILE_CHECKSUM.finding(name, what, offset=first)
    return None


def file_checksum(path: str, disk: FileSystem | None = None) -> str:
    """Return CRC-32C of a file's bytes, as manifests write it. Raises StorageError."""
    file = (disk or RealFileSystem()).open(path, read_only=True)
    try:
        return _checksum(file)
    finally:
        file.close()


def _checksum(file: File) -> str:
    crc: int | None = None
    position = 0
    while piece := file.pread(_READ_BYTES, position):
        crc = crc32c(piece) if crc is None else crc32c(piece, crc)
        position += len(piece)
    return f"crc32c:{crc or 0:08x}"
