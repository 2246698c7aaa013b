"""kafka-console-producer: `kbroker produce`, by Kafka's options."""

from __future__ import annotations

from kbroker.cli.kafka_tools.tool_options import (
    BOOTSTRAP,
    Given,
    Option,
    Tool,
    ToolError,
    pairs,
    truth_of,
)

_TAB = "\t"
_ACKS = {"-1": "all"}
# Those of Kafka's producer that say how records travel, not which.
_WITHOUT_EFFECT = (
    "batch-size", "max-block-ms", "max-memory-bytes", "max-partition-memory-bytes",
    "message-send-max-retries", "metadata-expiry-ms", "request-timeout-ms", "retry-backoff-ms",
    "socket-buffer-size", "timeout",
)  # fmt: skip


def _run(given: Given) -> int:
    from kbroker.cli.records.produce import produce

    produce.main(words_of(given), prog_name="kbroker produce", standalone_mode=False)
    return 0


def words_of(given: Given) -> list[str]:
    """Return the arguments of `kbroker produce`. ToolError for what it cannot do."""
    words = [*_where(given), *_lines(given), *_how(given)]
    return [*words, "--as-kafka", "--", given.needed("topic")]


def _where(given: Given) -> list[str]:
    words = ["--bootstrap", given.address()]
    file = given.one("command-config", "producer.config")
    if file is not None:
        words += ["--command-config", file]
    for name, value in _client_properties(given).items():
        if name not in ("acks", "compression.type"):
            words += ["-X", f"{name}={value}"]
    return words


def _client_properties(given: Given) -> dict[str, str]:
    return pairs("producer-property", given.all("command-property", "producer-property"))


def _lines(given: Given) -> list[str]:
    properties = pairs("property", given.all("property", "reader-property"))
    separator = properties.pop("key.separator", _TAB)
    has_keys = truth_of("parse.key", properties.pop("parse.key", "false"))
    for name in properties:
        raise ToolError(f"--property {name} is not served here")
    return ["--key-separator", separator.replace("\\", "\\\\")] if has_keys else []


def _how(given: Given) -> list[str]:
    properties = _client_properties(given)
    words = []
    acks = given.one("request-required-acks") or properties.get("acks")
    if acks is not None:
        words += ["--acks", _ACKS.get(acks, acks)]
    codec = given.one("compression-codec") or properties.get("compression.type")
    if codec is not None:
        words += ["--compression", codec]
    return words


TOOL = Tool(
    summary="writes each line of standard input to a topic.",
    options={
        **BOOTSTRAP,
        "broker-list": Option("Address of a broker.", "HOST:PORT"),
        "topic": Option("Where to.", "TOPIC"),
        "property": Option("parse.key=true and key.separator=TEXT (a tab).", "KEY=VALUE"),
        "reader-property": Option("The same.", "KEY=VALUE"),
        "producer.config": Option("Properties of a client, for TLS and logins.", "FILE"),
        "command-property": Option("A property of a client; may be repeated.", "KEY=VALUE"),
        "producer-property": Option("The same.", "KEY=VALUE"),
        "compression-codec": Option("none, gzip, snappy, lz4 or zstd.", "CODEC", "gzip"),
        "request-required-acks": Option("0, 1, -1 or all.", "ACKS"),
        "sync": Option("Taken, without effect."),
        **{name: Option("Taken, without effect.", "NUMBER") for name in _WITHOUT_EFFECT},
    },
    run=_run,
)
