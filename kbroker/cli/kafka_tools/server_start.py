"""kafka-server-start: `kbroker start` with a properties file."""

from __future__ import annotations

from kbroker.cli.kafka_tools.tool_options import Given, Option, Tool


def _run(given: Given) -> int:
    from kbroker.cli.broker.start import start

    words = list(given.words)
    for text in given.all("override"):
        words += ["--override", text]
    start.main(words, prog_name="kbroker start", standalone_mode=False)
    return 0


TOOL = Tool(
    summary="starts a broker with the settings of a server.properties.",
    options={
        "override": Option("A setting that wins over the file; may be repeated.", "KEY=VALUE")
    },
    run=_run,
    takes="server.properties",
)
