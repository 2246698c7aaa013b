"""The rights of nodes under zookeeper.set.acl, as Apache Kafka 3.9.2 gives them."""

from __future__ import annotations

import csv
from pathlib import Path

from kbroker.zk.ensemble.node_rights import Rights, secure_rights
from kbroker.zk.zk_paths import LOGIN_SECRET

GOLDEN = Path(__file__).parents[3] / "golden" / "zookeeper" / "rights-3.9.2.tsv"
TEXTS = {
    Rights.OPEN: "WORLD:31",
    Rights.READABLE: "MAKER:31 WORLD:1",
    Rights.SECRET: "MAKER:31",
}


def test_every_node_gets_the_rights_that_kafka_gives_it() -> None:
    with GOLDEN.open() as lines:
        golden = {row["path"]: row["rights"] for row in csv.DictReader(lines, delimiter="\t")}

    assert {path: TEXTS[secure_rights(path)] for path in golden} == golden
    assert secure_rights("/consumers/group") is Rights.READABLE
    assert secure_rights(LOGIN_SECRET) is Rights.SECRET
