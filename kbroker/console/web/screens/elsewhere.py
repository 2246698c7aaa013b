"""The same messages elsewhere: lines for `curl` and the command line that get what a page shows.

Pure.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from kbroker.console.shown_values import AUTO
from kbroker.console.web.console import Console
from kbroker.console.web.html import Html, element
from kbroker.console.web.message_query import FIRST_FROM, has_filter, offsets_in, partitions_in
from kbroker.console.web.routes import API_PATH
from kbroker.console.web.web_request import Fields, WebRequest, address


def elsewhere(request: WebRequest, path: str, fields: Mapping[str, str], command: str) -> Html:
    """Return the part of a page that has both lines; `path` is that of the API."""
    lines = (("curl", _curl(request, path, fields)), ("kbroker", command))
    listed = [
        (
            element("h2", title),
            element("pre", line, id=f"line-{title}"),
            element("button", "Copy", type="button", data_copy=f"#line-{title}", hidden=True),
        )
        for title, line in lines
    ]
    return element("details", element("summary", "The same elsewhere"), *listed, id="elsewhere")


def consume_command(console: Console, topic: str, query: Fields) -> str:
    """Return the command that prints the records of a list, and says what it cannot do."""
    starts, partitions = offsets_in(query.text("starts")), partitions_in(query.text("partitions"))
    start = query.text("from", FIRST_FROM)
    note = []
    if len(starts) == 1 and partitions <= starts.keys():
        ((partition, offset),) = starts.items()
        partitions, start = frozenset({partition}), str(offset)
    elif starts:
        note.append("from other offsets than the list, which goes on from a page before")
    options = ["--from", start]
    if query.text("to"):
        options += ["--to", query.text("to")]
    for each in sorted(partitions):
        options += ["--partition", str(each)]
    if query.flag("uncommitted"):
        options += ["--isolation", "read_uncommitted"]
    if has_filter(query):
        note.append("without the filter, which it does not have")
    return _consume(console, topic, query, options, note)


def record_command(console: Console, topic: str, query: Fields, partition: int, offset: int) -> str:
    """Return the command that prints one record."""
    options = [
        *("--from", str(offset), "--to", str(offset + 1), "--partition", str(partition)),
        *("--isolation", "read_uncommitted"),
    ]
    return _consume(console, topic, query, options, [])


def _consume(
    console: Console, topic: str, query: Fields, options: Sequence[str], note: Sequence[str]
) -> str:
    decoders = [
        part
        for name in ("key", "value")
        if query.text(f"{name}_decoder", AUTO) != AUTO
        for part in (f"--{name}-decoder", query.text(f"{name}_decoder"))
    ]
    words = ["kbroker", "consume", topic, "--bootstrap", str(console.cluster.bootstrap)]
    line = shlex.join([*words, *options, *decoders, "--output", "jsonl"])
    return "\n".join([*(f"# {each}" for each in note), line])


def _curl(request: WebRequest, path: str, fields: Mapping[str, str]) -> str:
    host = request.headers.get("host", "127.0.0.1")
    words = ["curl", f"http://{host}{API_PATH}{path}{address(**fields)}"]
    line = shlex.join(words)
    is_known = "authorization" in request.headers
    return f'{line} -H "Authorization: Bearer $TOKEN"' if is_known else line
