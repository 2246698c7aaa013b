"""The data source "kbroker-log": every directory of real brokers as a Java client read it, batches
as Kafka's dump tool states them, and what is asked for wrongly.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kbroker.pipeline import register
from kbroker.pipeline.logdir.columns import HEADER_COLUMNS
from kbroker.record.record_batch import HEADER_SIZE
from tests.fakes.disks.data_directory import written
from tests.fakes.logs.log_maker import NOW_MS
from tests.golden import golden_logs

FORMAT = "kbroker-log"
TIMESTAMP_TYPES = {"CreateTime": 0, "LogAppendTime": 1, "NoTimestampType": -1}
DUMPED = tuple(
    image
    for image in golden_logs.IMAGES
    if image not in (*golden_logs.UNCLEAN, *golden_logs.DAMAGED)
)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("images")
    for image in golden_logs.IMAGES:
        golden_logs.unpack(image, root / image)
    return root


def read(spark: Any, *paths: Path, **options: str) -> Any:
    register(spark)
    given = {name.replace("__", "."): value for name, value in options.items()}
    return spark.read.format(FORMAT).options(**given).load([str(path) for path in paths])


@contextmanager
def refused(reason: str) -> Iterator[None]:
    with pytest.raises(Exception, match=f"PipelineError: .*{reason}") as raised:
        yield
    assert "Traceback" not in str(raised.value)


def decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def test_spark_finds_the_source_by_itself(spark: Any, tmp_path: Path) -> None:
    with written(tmp_path / "a") as directory:
        directory.fill(3)

    assert spark.read.format(FORMAT).load(str(tmp_path / "a")).count() == 3


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_every_record_is_what_a_java_client_read(spark: Any, images: Path, isolation: str) -> None:
    wanted = set()
    for image in golden_logs.IMAGES:
        for row in golden_logs.lines(image, "expected"):
            if row["kind"] == "record" and row["isolation"] == isolation:
                headers = tuple((name, decoded(value)) for name, value in row["headers"])
                wanted.add((
                    image, row["topic"], row["partition"], row["offset"], row["timestamp"],
                    TIMESTAMP_TYPES[row["timestamp_type"]], row["leader_epoch"] or 0,
                    decoded(row["key"]), decoded(row["value"]), headers,
                ))  # fmt: skip
    # Of internal topics only the uncommitted records were noted.
    internal = str(isolation == "read_uncommitted").lower()
    rows = read(
        spark,
        *(images / image for image in golden_logs.IMAGES),
        columns="directory,topic,partition,offset,timestamp,timestampType,leaderEpoch,key,value,headers",
        isolation__level=isolation,
        includeInternal=internal,
    )

    collected = (
        rows.filter("topic <> '__cluster_metadata'")  # KRaft's own: no client reads it
        .selectExpr("*", "unix_millis(timestamp) AS ms")
        .collect()
    )

    found = [
        (
            Path(row.directory).parent.name, row.topic, row.partition, row.offset, row.ms,
            row.timestampType, max(row.leaderEpoch, 0),
            None if row.key is None else bytes(row.key),
            None if row.value is None else bytes(row.value),
            tuple((h.key, None if h.value is None else bytes(h.value)) for h in row.headers or ()),
        )
        for row in collected
    ]  # fmt: skip
    assert len(found) == len(set(found)) > 5_000
    assert set(found) == wanted


def test_batches_are_what_the_dump_tool_states(spark: Any, images: Path) -> None:
    wanted = set()
    for image in DUMPED:
        starts = {
            f"{row['topic']}-{row['partition']}": row["start"]
            for row in golden_logs.lines(image, "expected")
            if row["kind"] == "offsets"
        }
        for row in golden_logs.lines(image, "segments"):
            directory, _, file = row["file"].partition("/")
            last_offset = row.get("lastOffset", row.get("offset"))
            if not file.endswith(".log") or last_offset < starts.get(directory, 0):
                continue
            time = next(name for name in TIMESTAMP_TYPES if name in row)
            wanted.add((
                image, directory, int(file[:20]), row["position"], row["size"], last_offset,
                row["magic"], row["compresscodec"], row["crc"], TIMESTAMP_TYPES[time], row[time],
                *(row.get(name) for name in (
                    "baseOffset", "count", "baseSequence", "lastSequence", "producerId",
                    "producerEpoch", "partitionLeaderEpoch", "isTransactional", "isControl",
                )),
            ))  # fmt: skip
    columns = ",".join(HEADER_COLUMNS)
    rows = read(
        spark,
        *(images / image for image in DUMPED),
        detail="batch",
        includeInternal="true",
        columns=columns,
    )

    found = set()
    rows = rows.filter("topic <> '__cluster_metadata'")  # not in the dump
    for row in rows.selectExpr("*", "unix_millis(maxTimestamp) AS ms").collect():
        path = Path(row.directory)
        of_batch = (
            row.baseOffset, row.recordCount, row.baseSequence, row.lastSequence, row.producerId,
            row.producerEpoch, row.leaderEpoch, row.isTransactional, row.isControl,
        )  # fmt: skip
        found.add((
            path.parent.name, path.name, row.segment, row.position, row.sizeBytes, row.lastOffset,
            row.magic, row.compression, row.crc, row.timestampType, row.ms,
            *(of_batch if row.magic == 2 else (None,) * len(of_batch)),
        ))  # fmt: skip
        assert row.crcValid

    assert len(found) > 1_000
    assert found == wanted


def test_a_schema_of_a_persons_own_and_filters_of_topic_offset_and_time(
    spark: Any, tmp_path: Path
) -> None:
    with written(tmp_path / "a", segment_bytes=400) as directory:
        directory.fill(20, topic="orders", timestamp=NOW_MS)
        directory.fill(20, topic="orders", timestamp=NOW_MS + 60_000)
        directory.fill(5, topic="orders", partition=1)
        directory.fill(5, topic="others")
    register(spark)

    rows = (
        spark.read.format(FORMAT)
        .schema("offset BIGINT, topic STRING")
        .option("topics", "orders")
        .option("partitions", "0")
        .option("startingOffsets", '{"orders": {"0": 7}}')
        .option("endingOffsets", '{"orders": {"0": 33}}')
        .option("startingTimestamp", NOW_MS + 1)
        .load(str(tmp_path / "a"))
    )

    assert rows.columns == ["offset", "topic"]
    assert [tuple(row) for row in rows.collect()] == [(each, "orders") for each in range(20, 33)]


def test_what_is_not_asked_for_is_not_opened(spark: Any, tmp_path: Path) -> None:
    with written(tmp_path / "a") as directory:
        directory.append(b"a" * 200, compression=1)
    log = next((tmp_path / "a").glob("t-0/*.log"))
    data = bytearray(log.read_bytes())
    data[HEADER_SIZE + 5] ^= 0xFF
    log.write_bytes(data)

    row = read(spark, tmp_path / "a", detail="batch", columns="lastOffset,crcValid").collect()

    assert [tuple(each) for each in row] == [(0, False)]
    verify = f"the batch at position 0, offset 0: .*`kbroker log verify {tmp_path}/a/t-0`"
    with refused(verify):
        read(spark, tmp_path / "a").collect()
    assert read(spark, tmp_path / "a", onDamage="skip").count() == 0


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"topicz": "t"}, "no option topicz, did you mean topics"),
        ({"columns": "offest"}, "no column offest, did you mean offset"),
        ({"topics": "u"}, "no such topic in"),
        (
            {"startingOffsets": '{"t": {"0": 99}}'},
            "t-0 is to be read from offset 99 to 3, and .* has 0 to 3",
        ),
    ],
)
def test_a_mistake_is_one_sentence(
    spark: Any, tmp_path: Path, options: dict[str, str], reason: str
) -> None:
    with written(tmp_path / "a") as directory:
        directory.fill(3)

    with refused(reason):
        read(spark, tmp_path / "a", **options).collect()


def test_a_directory_without_a_log_is_one_sentence(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()

    with refused("does not exist"):
        read(spark, tmp_path / "nowhere").collect()
    with refused("is empty: it holds no log"):
        read(spark, tmp_path / "empty").collect()
    with refused("is neither a data directory"):
        read(spark, tmp_path).collect()


def test_a_schema_that_does_not_fit_is_one_sentence(spark: Any, tmp_path: Path) -> None:
    with written(tmp_path / "a") as directory:
        directory.fill(1)
    register(spark)

    with refused("the column offset is BIGINT, the schema says string"):
        spark.read.format(FORMAT).schema("offset STRING").load(str(tmp_path / "a")).collect()
