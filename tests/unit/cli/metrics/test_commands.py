from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from kbroker.cli.metrics.board import board
from kbroker.cli.metrics.commands import metrics


def run(*words: str) -> Result:
    return CliRunner().invoke(metrics, list(words))


def test_the_board_is_printed_as_json() -> None:
    assert json.loads(run("grafana").stdout) == board()


def test_brokers_and_their_token_are_named() -> None:
    printed = run(
        "prometheus", "--url", "https://a:1", "--url", "https://b:2/metrics",
        "--token-file", "/run/token", "--ca", "/run/ca", "--job", "mine",
    ).stdout  # fmt: skip

    tls = '    scheme: https\n    tls_config:\n      ca_file: "/run/ca"\n'
    assert f'job_name: "mine"\n{tls}' in printed
    assert "--ca" in run("prometheus", "--ca", "/run/ca").output  # of http
    assert 'credentials_file: "/run/token"\n' in printed
    assert printed.endswith('      - targets:\n          - "a:1"\n          - "b:2"\n')


@pytest.mark.parametrize(
    "urls",
    [
        ("a",), ("http://a",), ("http://:1",), ("http://a:x",), ("ftp://a:1",),
        ("http://a:1/other",), ("http://a:1?topic=t",), ("http://me@a:1",),
        ("http://a:1", "https://b:1"),
    ],
)  # fmt: skip
def test_what_is_no_address_of_a_broker_is_refused(urls: tuple[str, ...]) -> None:
    refused = run("prometheus", *(word for url in urls for word in ("--url", url)))

    assert refused.exit_code == 2
    assert not refused.stdout
