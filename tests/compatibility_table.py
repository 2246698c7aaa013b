"""The README's table of served APIs, made from the registry. `python -m tests.compatibility_table`
writes it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from kbroker.apis import registry
from kbroker.protocol.schema import message_spec

README = Path(__file__).resolve().parent.parent / "README.md"
BEGIN = "<!-- compatibility table: begin -->\n"
END = "<!-- compatibility table: end -->\n"


def table() -> str:
    """One line per served key: number, name, versions served, versions declared by Kafka."""
    lines = ["| Key | API | Versions served | Versions in Kafka |", "|---:|---|---|---|"]
    for key, api in registry.registered().items():
        declared = message_spec(api.request_class).versions
        lines.append(f"| {key} | {api.name} | {api.versions} | {declared} |")
    return "\n".join(lines) + "\n"


def table_in(text: str) -> str:
    """What stands between the two markers."""
    return text.partition(BEGIN)[2].partition(END)[0]


def with_table(text: str) -> str:
    """The text with the table of now between its markers."""
    pattern = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.DOTALL)
    return pattern.sub(lambda _: BEGIN + table() + END, text)


if __name__ == "__main__":
    README.write_text(with_table(README.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(table())
