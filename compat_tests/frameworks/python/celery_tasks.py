"""Celery over kombu's transport for Kafka: `celery -A celery_tasks worker`, and as a program it sends
tasks: `python celery_tasks.py LINE...`.
"""

import os
import sys
from pathlib import Path

from celery import Celery

app = Celery("celery_tasks", broker=f"confluentkafka://{os.environ['BOOTSTRAP']}")
app.conf.task_default_queue = os.environ["SOURCE"]
app.conf.task_acks_late = True
app.conf.worker_prefetch_multiplier = 1
app.conf.worker_enable_remote_control = False  # needs fanout, which the transport does not have
app.conf.broker_transport_options = {
    "allow_create_topics": True,
    "wait_time_seconds": 1,
    "kafka_consumer_config": {"session.timeout.ms": 6_000},
}


@app.task
def upper(line: str) -> None:
    with (Path(os.environ["FOLDER"]) / "done").open("a") as done:
        print(line.upper(), file=done)


if __name__ == "__main__":
    for line in sys.argv[1:]:
        upper.delay(line)
