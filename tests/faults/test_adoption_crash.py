"""A loss of power at every step of an adoption: the directory is adopted whole or not at all, and
what was adopted stays.
"""

from __future__ import annotations

from random import Random

from kbroker.config.kafka_config import KafkaConfig
from kbroker.server.adoption.adopt_option import AdoptOption
from kbroker.server.adoption.gate import AdoptionGate
from kbroker.zk import zk_paths
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from kbroker.zk.embedded.tree_directory import TreeDirectory
from kbroker.zk.zk_utils import ZkUtils
from tests.fakes.disks.recording_file_system import RecordingFileSystem
from tests.fakes.running.virtual_time import VirtualTime
from tests.faults.crash_storage import finish
from tests.golden import golden_logs

NAME = "4.3.1-unclean"
DATA = "/d"
IMAGES_PER_STEP = 4
WISH = AdoptOption(config=KafkaConfig.for_profile("dev", {"log.dirs": DATA}), is_agreed=True)


def kafka_disk() -> RecordingFileSystem:
    """A disk with a directory of Apache Kafka, all of it safe."""
    disk = RecordingFileSystem()
    for path, content in golden_logs.files(NAME).items():
        directory = f"{DATA}/{path}".rpartition("/")[0]
        disk.make_directory(directory)
        disk.write_bytes(f"{DATA}/{path}", content, sync=True)
        for parent in (directory, DATA, "/"):
            disk.sync_directory(parent)
    return disk


def opened(disk: RecordingFileSystem) -> ZkUtils:
    time = VirtualTime()
    zk = ZkUtils(EmbeddedTree(time, TreeDirectory(disk, DATA)).session(), time)
    finish(zk.create_persistent_paths())
    return zk


def adopt(disk: RecordingFileSystem) -> str:
    return finish(AdoptionGate(WISH, disk).carry_out(opened(disk)))


def test_a_crash_leaves_all_or_nothing() -> None:
    topics = {r["topic"] for r in golden_logs.lines(NAME, "expected") if "topic" in r}
    random = Random(4)
    images: list[RecordingFileSystem] = []
    disk = kafka_disk()
    disk.before_change = lambda *_: images.extend(
        disk.image(random) for _ in range(IMAGES_PER_STEP)
    )

    adopt(disk)

    assert len(images) > 10 * IMAGES_PER_STEP
    seen = set()
    for image in images:
        zk = opened(image)
        is_adopted = finish(zk.tree.exists(zk_paths.CLUSTER_ID)) is not None
        assert set(finish(zk.topics())) == (topics if is_adopted else set()), image.made_as
        seen.add(is_adopted)
        said = finish(AdoptionGate(WISH, image).carry_out(zk))
        assert ("has no effect" in said) == is_adopted
        assert set(finish(zk.topics())) == topics
    assert seen == {True, False}


def test_what_was_adopted_is_safe_when_it_is_said() -> None:
    disk = kafka_disk()

    said = adopt(disk)
    again = adopt(disk.image(Random(1), "lost"))

    assert said.startswith("kbroker adopted")
    assert "has a tree of kbroker already" in again
