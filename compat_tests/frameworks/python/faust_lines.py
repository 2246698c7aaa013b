"""Faust with an agent: `faust -A faust_lines worker`."""

import os

import faust

app = faust.App(
    os.environ["GROUP"],
    broker=f"kafka://{os.environ['BOOTSTRAP']}",
    datadir=os.environ["FOLDER"],
    topic_replication_factor=1,
    broker_session_timeout=6,
    broker_heartbeat_interval=1,
    broker_commit_interval=0.5,
    web_enabled=False,
)
source = app.topic(os.environ["SOURCE"], key_type=bytes, value_type=bytes, value_serializer="raw")
sink = app.topic(os.environ["SINK"], key_type=bytes, value_type=bytes, value_serializer="raw")


@app.agent(source)
async def upper(stream: faust.Stream[bytes]) -> None:
    async for line in stream:
        await (await sink.send(value=line.upper()))  # it is acknowledged before its offset is
