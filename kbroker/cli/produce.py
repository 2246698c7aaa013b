"""`kbroker produce`: each line of standard input becomes one record."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from kbroker.cli.connection import (
    CommandError,
    ExitCode,
    bootstrap_option,
    client_errors,
    sentence_of,
)
from kbroker.cli.output import counted, say

_TOPIC_TIMEOUT_MS = 5_000
_REQUEST_TIMEOUT_MS = 20_000
_DELIVERY_TIMEOUT_MS = 30_000  # a person waits, not a service
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@click.command()
@click.argument("topic")
@click.option("--key", help="Key of every record.")
@click.option("--key-separator", metavar="TEXT", help="Each line is KEY, this text, VALUE.")
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="KEY=VALUE",
    help="A header of every record; may be repeated.",
)
@click.option("--partition", type=int, help="Partition to write to (default: by key, else spread).")
@click.option("--acks", type=click.Choice(["0", "1", "all"]), default="all", show_default=True)
@click.option("--compression", type=click.Choice(CODECS), default="none", show_default=True)
@click.option("--null-value", is_flag=True, help="An empty value is a tombstone (null).")
@bootstrap_option
def produce(  # one parameter per option
    bootstrap: str,
    topic: str,
    key: str | None,
    key_separator: str | None,
    headers: Sequence[str],
    partition: int | None,
    acks: str,
    compression: str,
    null_value: bool,
) -> None:
    """Write each line of standard input to TOPIC as one record."""
    if key is not None and key_separator is not None:
        raise click.UsageError("--key and --key-separator exclude each other")
    from kafka import KafkaProducer

    pairs = [_header(text) for text in headers]
    failures: list[BaseException] = []
    sent = 0
    with client_errors(bootstrap):
        producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            client_id="kbroker-cli",
            acks=int(acks) if acks != "all" else "all",
            compression_type=None if compression == "none" else compression,
            linger_ms=5,
            max_block_ms=_TOPIC_TIMEOUT_MS,
            request_timeout_ms=_REQUEST_TIMEOUT_MS,
            delivery_timeout_ms=_DELIVERY_TIMEOUT_MS,
            bootstrap_timeout_ms=5_000,
        )
        try:
            _check_topic(producer, topic)
            for line in sys.stdin.buffer:
                record_key, value = _split(line.rstrip(b"\r\n"), key, key_separator)
                future = producer.send(
                    topic,
                    value=None if null_value and not value else value,
                    key=record_key,
                    headers=pairs,
                    partition=partition,
                )
                future.add_errback(failures.append)
                sent += 1
        finally:
            _deliver(producer)
    _finish(topic, sent, failures)


def _check_topic(producer: Any, topic: str) -> None:
    """Have the topic made where the broker does so; say at once when there is none."""
    from kafka.errors import KafkaTimeoutError

    try:
        producer.partitions_for(topic)
    except KafkaTimeoutError as error:
        raise CommandError(
            f"no such topic: {topic} (create it with `kbroker topic create {topic}`)",
            ExitCode.ITEM_FAILED,
        ) from error


def _deliver(producer: Any) -> None:
    """Wait until every record is written or given up, and close.

    Once kafka-python's idempotent producer has given up a batch that it had sent, it may keep those
    behind it for ever: they are given up here.
    """
    from kafka.errors import KafkaTimeoutError

    try:
        producer.flush(timeout=_DELIVERY_TIMEOUT_MS / 1000 + 5)
    except KafkaTimeoutError:
        producer._sender.force_close()
    producer.close()


def _finish(topic: str, sent: int, failures: Sequence[Any]) -> None:
    if failures:
        raise CommandError(
            f"{len(failures)} of {sent} records were not written: {sentence_of(failures[0])}",
            ExitCode.ITEM_FAILED,
        )
    say(f"{counted(sent, 'record')} written to {topic}")


def _header(text: str) -> tuple[str, bytes]:
    name, separator, value = text.partition("=")
    if not separator:
        raise click.UsageError(f"'{text}' is no KEY=VALUE")
    return name, value.encode()


def _split(line: bytes, key: str | None, separator: str | None) -> tuple[bytes | None, bytes]:
    if separator is None:
        return (None if key is None else key.encode()), line
    head, found, tail = line.partition(separator.encode())
    return (head, tail) if found else (None, line)
