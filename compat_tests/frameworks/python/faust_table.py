"""Faust with a table, which it keeps in a changelog topic: `faust -A faust_table worker`."""

import os

import faust

app = faust.App(
    os.environ["GROUP"],
    broker=f"kafka://{os.environ['BOOTSTRAP']}",
    datadir=os.environ["FOLDER"],
    store="memory://",
    topic_replication_factor=1,
    broker_commit_interval=0.5,
    web_enabled=False,
)
source = app.topic(os.environ["SOURCE"], key_type=bytes, value_type=bytes, value_serializer="raw")
sink = app.topic(os.environ["SINK"], key_type=bytes, value_type=bytes, value_serializer="raw")
lines_by_key = app.Table("lines_by_key", key_type=str, value_type=int, default=int, partitions=3)


@app.agent(source)
async def count(stream: faust.Stream[bytes]) -> None:
    async for key, _ in stream.items():  # noqa: PERF102  # a stream is no dict
        name = key.decode()
        lines_by_key[name] += 1
        await sink.send(key=key, value=f"{name}={lines_by_key[name]}".encode())
