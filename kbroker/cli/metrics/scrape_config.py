"""A configuration of Prometheus that scrapes brokers.

Pure. YAML, whose strings are written as JSON writes them, which YAML reads.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

INTERVAL_S = 15
RULES_FILE = "kbroker-alerts.yml"


class Scraped(NamedTuple):
    """The brokers of one cluster, and how they are asked."""

    job: str
    targets: Sequence[str]  # HOST:PORT
    is_tls: bool = False
    token_file: str | None = None  # a path on the machine of Prometheus
    ca_file: str | None = None  # likewise


def text_of(scraped: Scraped) -> str:
    """The whole file, which names that of the alerting rules too."""
    lines = [
        "global:",
        f"  scrape_interval: {INTERVAL_S}s",
        f"  evaluation_interval: {INTERVAL_S}s",
        "rule_files:",
        f"  - {RULES_FILE}  # kbroker metrics alerts > {RULES_FILE}",
        "scrape_configs:",
        f"  - job_name: {json.dumps(scraped.job)}",
    ]
    if scraped.is_tls:
        lines.append("    scheme: https")
    if scraped.ca_file is not None:
        lines += ["    tls_config:", f"      ca_file: {json.dumps(scraped.ca_file)}"]
    if scraped.token_file is not None:
        lines += ["    authorization:", f"      credentials_file: {json.dumps(scraped.token_file)}"]
    lines += ["    static_configs:", "      - targets:"]
    lines += [f"          - {json.dumps(target)}" for target in scraped.targets]
    return "\n".join(lines) + "\n"
