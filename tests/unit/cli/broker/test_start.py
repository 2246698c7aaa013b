"""What `kbroker start` says before and after a start."""

from __future__ import annotations

import pytest

from kbroker.cli.arguments.connection import CommandError, ExitCode
from kbroker.cli.broker.start import hearer, start
from kbroker.model import EndPoint
from kbroker.server.start.launch import Launch
from kbroker.server.start.settings_sources import SettingSources, load_settings


@pytest.mark.parametrize("connect", ["", " "])
def test_an_ensemble_without_a_name_is_no_wish_to_run_alone(connect: str) -> None:
    with pytest.raises(CommandError, match="--zookeeper is empty: give HOST:PORT/") as refused:
        start.main(["--zookeeper", connect], standalone_mode=False)

    assert refused.value.code == ExitCode.USAGE


@pytest.mark.parametrize(
    ("connect", "said"),
    [
        (None, "data in /tmp/d, removed at the end (keep it with --data DIR)"),
        ("z:1/k", "data in /tmp/d, removed at the end, but ZooKeeper keeps its topics (keep it"),
    ],
)
def test_data_that_goes_at_the_end_is_told(
    capsys: pytest.CaptureFixture[str], connect: str | None, said: str
) -> None:
    chosen = {} if connect is None else {"zookeeper.connect": connect}
    settings = load_settings(SettingSources(environment={}, overrides=chosen))
    launch = Launch(settings=settings, temporary="/tmp/d")

    hearer(launch).ready([EndPoint(listener_name="PLAINTEXT", host="127.0.0.1", port=9092)])

    told = capsys.readouterr()
    assert told.out == "listening on 127.0.0.1:9092\n"
    assert said in told.err


@pytest.mark.parametrize(
    ("ports", "said"),
    [
        ((8080,), "console at http://127.0.0.1:8080/\n"),
        ((8080, 8081), "console at http://127.0.0.1:8080/ http://127.0.0.1:8081/\n"),
    ],
)
def test_http_addresses_are_told_to_people_alone(
    ports: tuple[int, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    launch = Launch(settings=load_settings(SettingSources()))

    hearer(launch).http([EndPoint(listener_name="HTTP", host="127.0.0.1", port=p) for p in ports])

    assert capsys.readouterr() == ("", said)
