"""Findings as a person or a program reads them."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from shutil import get_terminal_size

from kbroker.cli.doctor.finding import Finding, Severity
from kbroker.cli.doctor.observations import Observations, SeenBroker
from kbroker.cli.doctor.rules.settings import SOFTWARE_MARK
from kbroker.cli.shown.output import print_rows, print_text
from kbroker.protocol.api_keys import ApiKey
from kbroker.wording import counted, named

_COLUMNS = ("severity", "code", "subject", "seen", "means", "mends")
_SENTENCES = ("seen", "means", "mends")
_WIDTH = 100
_NEWEST_FIRST = (  # requests by the Kafka that brought them
    (ApiKey.DESCRIBE_TOPIC_PARTITIONS, "3.8"),
    (ApiKey.DESCRIBE_TRANSACTIONS, "3.0"),
    (ApiKey.DESCRIBE_CLUSTER, "2.8"),
    (ApiKey.INCREMENTAL_ALTER_CONFIGS, "2.3"),
    (ApiKey.DELETE_GROUPS, "1.1"),
)
_FETCH_OF_4 = 4  # its lowest version since Kafka 4.0 (KIP-896)


def print_findings(findings: Sequence[Finding], output: str) -> None:
    """Print findings on standard output: paragraphs as a table would be too wide, else rows."""
    if output == "table":
        print_text(
            "\n\n".join("\n".join(_paragraph(each)) for each in findings)
        ) if findings else None
    else:
        print_rows([asdict(each) for each in findings], _COLUMNS, output)


def summary_of(seen: Observations) -> str:
    """Return the sentence about what was looked at; empty if no broker was reached."""
    cluster = seen.cluster
    if cluster is None:
        return ""
    partitions = sum(topic.partitions for topic in cluster.topics)
    kinds = sorted({_software(broker) for broker in seen.brokers if broker.door.lets_in})
    trial, group = seen.trial, seen.group
    is_written = trial is not None and trial.refusal is None and trial.records
    tried = ["a record written and read back"] if is_written else []
    tried += ["a group joined"] if group is not None and group.refusal is None else []
    return (
        f"looked at {counted(len(seen.brokers), 'broker')} ({named(kinds) or 'none reached'}), "
        f"{counted(len(cluster.topics), 'topic')}, {counted(partitions, 'partition')}"
        + "".join(f", {each}" for each in tried)
    )


def counts_of(findings: Iterable[Finding]) -> str:
    """Return how many findings there are of each severity, such as `1 error, 2 warnings`."""
    counts = Counter(each.severity for each in findings)
    return ", ".join(counted(counts[each], each.value) for each in Severity if counts[each])


def _paragraph(finding: Finding) -> Iterator[str]:
    yield f"{finding.severity.value}  {finding.subject}  ({finding.code})"
    width = min(get_terminal_size((_WIDTH, 0)).columns, _WIDTH)
    for name in _SENTENCES:
        yield from textwrap.wrap(
            str(getattr(finding, name)),
            max(width, 40),
            initial_indent=f"  {name:<6}",
            subsequent_indent=" " * 8,
            break_on_hyphens=False,
            break_long_words=False,
        )


def _software(broker: SeenBroker) -> str:
    if broker.settings is not None and SOFTWARE_MARK in broker.settings:
        return "kbroker"
    serves = broker.door.serves
    fetch = serves.get(ApiKey.FETCH)
    if fetch is not None and fetch.lowest >= _FETCH_OF_4:
        return "the protocol of Kafka 4.0 or later"
    version = next((name for key, name in _NEWEST_FIRST if key in serves), "0.10")
    return f"the protocol of Kafka {version} or later"
