"""Faust with an agent and a table, which it keeps in a changelog topic: `faust -A faust_table worker`."""

import os

import faust

app = faust.App(
    os.environ["GROUP"],
    broker=f"kafka://{os.environ['BOOTSTRAP']}",
    datadir=os.environ["FOLDER"],
    store="memory://",
    topic_partitions=3,
    topic_replication_factor=1,
    broker_session_timeout=6,
    broker_heartbeat_interval=1,
    broker_commit_interval=0.5,
    web_enabled=False,
)
source = app.topic(os.environ["SOURCE"], key_type=bytes, value_type=bytes, value_serializer="raw")
sink = app.topic(os.environ["SINK"], key_type=bytes, value_type=bytes, value_serializer="raw")
lines_by_key = app.Table("lines_by_key", key_type=str, value_type=int, default=int, partitions=3)


@app.agent(source)
async def upper(stream: faust.Stream[bytes]) -> None:
    async for key, line in stream.items():
        lines_by_key[key.decode()] += 1
        await sink.send(key=key, value=line.upper())
