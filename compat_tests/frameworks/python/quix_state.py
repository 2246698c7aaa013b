"""Quix Streams with a state store, which it keeps in a changelog topic: `python quix_state.py`."""

import os

from quixstreams import Application, State

app = Application(
    broker_address=os.environ["BOOTSTRAP"],
    consumer_group=os.environ["GROUP"],
    auto_offset_reset="earliest",
    commit_interval=0.5,
    state_dir=os.environ["FOLDER"],
    consumer_extra_config={"session.timeout.ms": 15_000, "reconnect.backoff.max.ms": 1_000},
)
source = app.topic(os.environ["SOURCE"], value_deserializer="str")
sink = app.topic(os.environ["SINK"], value_serializer="str")


def upper(line: str, state: State) -> str:
    state.set("lines", state.get("lines", 0) + 1)
    return line.upper()


app.dataframe(source).apply(upper, stateful=True).to_topic(sink)

if __name__ == "__main__":
    app.run()
