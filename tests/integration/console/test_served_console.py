"""The console as it is served: by a broker at its HTTP address, and by `kbroker console`."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
from http.client import HTTPConnection
from pathlib import Path

from click.testing import CliRunner

from compat_tests.running.forked_kbroker import ForkedKbroker
from kbroker.cli.arguments.connection import CommandError, ExitCode
from kbroker.cli.broker.console import console
from kbroker.config.kafka_config import KafkaConfig
from kbroker.server.broker.kafka_server import KafkaServer
from tests.fakes.running.forked_broker import Broker

FORM = {"content-type": "application/x-www-form-urlencoded"}


def ask(
    port: int, path: str, body: str | None = None, **headers: str
) -> tuple[int, str, dict[str, str]]:
    """The status, the text and the headers of an answer."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET" if body is None else "POST", path, body, named)
    answer = connection.getresponse()
    found = answer.status, answer.read().decode(), dict(answer.getheaders())
    connection.close()
    return found


async def test_a_broker_serves_its_console_beside_health_and_metrics(tmp_path: Path) -> None:
    values = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": str(tmp_path),
        "kbroker.http.listeners": "127.0.0.1:0",
    }
    server = KafkaServer(KafkaConfig.for_profile("dev", values))
    await server.startup()
    port = server.http_end_points[0].port

    def look() -> None:
        status, _, headers = ask(port, "/", accept="text/html,*/*")
        assert (status, headers["location"]) == (303, "/overview")
        assert ask(port, "/")[0] == 200
        status, text, headers = ask(port, "/overview")
        assert (status, "<h1>Overview</h1>" in text) == (200, True)
        assert headers["cache-control"] == "no-store"
        assert (
            headers["referrer-policy"] == "same-origin"
        )  # else browsers send forms without Origin
        assert ask(port, "/metrics")[0] == 200
        assert ask(port, "/nowhere")[0] == 404
        assert ask(port, "/overview", host="evil.example")[0] == 403
        foreign = {**FORM, "origin": "http://evil.example"}
        assert ask(port, "/new-topic", "name=a", **foreign)[0] == 403
        own = {**FORM, "origin": f"http://127.0.0.1:{port}"}
        status, _, headers = ask(port, "/new-topic", "name=a", **own)
        assert (status, headers["location"].partition("?")[0]) == (303, "/topics/a")
        status, text, _ = ask(port, "/topics/a/history")
        assert (status, "As far as this broker knows" in text) == (200, True)
        assert ask(port, "/static/console.js")[2]["content-type"].startswith("text/javascript")

    await asyncio.to_thread(look)
    await server.shutdown()


def test_the_command_serves_it_for_any_broker_within_its_limits(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    with Broker() as broker:
        command = ("console", "--bootstrap", broker.bootstrap, "--listen", "127.0.0.1:0")
        options = ("--read-only", "--no-messages", "--token-file", str(token), "--host", "kafka")
        with ForkedKbroker(*command, *options, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                line = process.stdout.readline()
                port = int(re.findall(r":(\d+)/$", line)[0])
                assert ask(port, "/topics")[0] == 401
                known = {"authorization": "Bearer s3cret"}
                status, text, _ = ask(port, "/topics", host="kafka", **known)
                assert (status, "read-only" in text) == (200, True)
                assert "Create a topic" not in text
                assert ask(port, "/new-topic", "name=a", **FORM, **known)[0] == 403
                assert ask(port, "/new-topic", **known)[0] == 403
                broker_page = ask(port, "/topics/a/history", **known)
                assert broker_page[0] == 404
            finally:
                process.send_signal(signal.SIGTERM)
    assert process.returncode == 0


def test_the_command_refuses_an_address_that_others_reach_without_a_token(tmp_path: Path) -> None:
    empty = tmp_path / "token"
    empty.touch()
    for options, words in (
        (["--listen", "0.0.0.0:0"], "--token-file"),
        (["--token-file", str(empty)], "is empty"),
    ):
        error = CliRunner().invoke(console, options, standalone_mode=False).exception

        assert isinstance(error, CommandError)
        assert (error.code, words in error.message) == (ExitCode.USAGE, True), error.message
