"""What Apache Kafka shows, as a file: a line for each kind of series with name, type and labels."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from compat_tests.metrics.pages import Shown

APACHE = Path(__file__).parent / "apache-3.9.2.tsv"


def write(path: Path, shown: Iterable[Shown]) -> None:
    """Write the kinds of series of a page; those of the JVM are left out."""
    lines = [
        "\t".join((each.name, each.kind, ",".join(each.labels)))
        for each in sorted(shown)
        if not each.name.startswith(("jvm_", "jmx_"))
    ]
    path.write_text("".join(f"{line}\n" for line in lines))


def read(path: Path = APACHE) -> set[Shown]:
    """Read what was written."""
    rows = (line.split("\t") for line in path.read_text().splitlines())
    return {
        Shown(name, kind, tuple(filter(None, labels.split(",")))) for name, kind, labels in rows
    }
