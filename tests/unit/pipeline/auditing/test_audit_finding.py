from __future__ import annotations

from random import Random

from kbroker.inspection.finding import Finding, Findings, Severity
from kbroker.model import TopicPartition
from kbroker.pipeline.auditing.audit_finding import AuditFinding, Side, in_order, placed

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def finding(severity: Severity, path: str, position: int | None = None) -> Finding:
    return Finding(severity, "gap", path, f"at {position}", "look", position, position)


def test_the_worst_come_first_and_then_the_place_decides() -> None:
    expected = [
        AuditFinding(Side.LOG, finding(Severity.ERROR, "d"), None),
        AuditFinding(Side.LOG, finding(Severity.ERROR, "d/t-0", 3), T0),
        AuditFinding(Side.LOG, finding(Severity.ERROR, "d/t-0", 20), T0),
        AuditFinding(Side.LOG, finding(Severity.ERROR, "d/t-1", 1), T1),
        AuditFinding(Side.ARCHIVE, finding(Severity.ERROR, "a"), T0),
        AuditFinding(Side.CLUSTER, finding(Severity.ERROR, "c"), T0),
        AuditFinding(Side.LOG, finding(Severity.WARNING, "d/t-0"), T0),
        AuditFinding(Side.LOG, finding(Severity.INFO, "d"), None),
    ]

    for seed in range(20):
        mixed = expected.copy()
        Random(seed).shuffle(mixed)
        assert in_order(mixed) == expected


def test_those_that_were_left_out_come_after_those_that_were_not() -> None:
    gathered = Findings()
    for position in range(7):
        gathered.add(finding(Severity.WARNING, "d/t-0/0.index", position))

    rows = [each.row() for each in in_order(placed(Side.LOG, T0, gathered.all()))]

    assert [row["position"] for row in rows] == [0, 1, 2, 6]
    assert str(rows[-1]["what"]).startswith("4 more of the same kind")
    assert (rows[0]["topic"], rows[0]["partition"], rows[0]["side"]) == ("t", 0, "log")
