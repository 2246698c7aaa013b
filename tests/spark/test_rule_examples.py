"""Each example of rules gives exactly the truth of its generator. That of logs is in test_rules."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from compat_tests.clients.every_client import create_topic
from examples.rules.run import HERE, differences, load_generator, read
from kbroker.pipeline.rule_jobs.rule_reading import read_rules
from tests.spark.test_rules import run_to_end, write


@pytest.mark.parametrize(
    "example", ["device-switches", "invite-fraud", "phone-regions", "earnings"]
)
def test_an_example_gives_its_truth(
    spark: Any, bootstrap: str, tmp_path: Path, example: str
) -> None:
    generator = load_generator(example)
    spec = read_rules(HERE / example / "rules.toml")
    events = generator.events(seed=2, count=120)
    for topic, partitions in (*generator.TOPICS.items(), *((t, 2) for t in spec.output_topics())):
        create_topic(bootstrap, topic, partitions)

    for is_table, group in groupby(events, lambda e: e.topic in getattr(generator, "TABLES", ())):
        write(bootstrap, list(group))
        if not is_table:  # else calls before a change of the table would see it
            rules, job_id = run_to_end(spark, spec, bootstrap, tmp_path / "checkpoint")
    rules.close_windows(spark, job_id)

    results = {topic: read(bootstrap, topic) for topic in generator.truth(events)}
    assert differences(generator, events, results) == []
