"""FastStream over aiokafka: `faststream run faststream_aiokafka:app`."""

import os

from faststream import AckPolicy, FastStream
from faststream.kafka import KafkaBroker

broker = KafkaBroker(os.environ["BOOTSTRAP"])
app = FastStream(broker)


@broker.subscriber(
    os.environ["SOURCE"],
    group_id=os.environ["GROUP"],
    auto_offset_reset="earliest",
    session_timeout_ms=6_000,
    ack_policy=AckPolicy.ACK,
)
@broker.publisher(os.environ["SINK"])
async def upper(line: str) -> str:
    return line.upper()
