"""`kbroker cert`: from nothing to certificates, and what is wrong with one."""

from __future__ import annotations

import json
import ssl
from pathlib import Path
from socket import create_server
from threading import Thread
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kbroker.cli.arguments.connection import CommandError, ExitCode
from kbroker.cli.cert.commands import cert


def run(*words: object) -> Result:
    return CliRunner().invoke(cert, [str(word) for word in words], standalone_mode=False)


def refusal(*words: object) -> tuple[ExitCode, str]:
    error = run(*words).exception
    assert isinstance(error, CommandError)
    return error.code, error.message


def shown(place: object) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(run("show", place, "--output", "json").stdout)
    return rows


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    assert run("make", tmp_path / "d", "--client", "ann", "--days", "30").exit_code == 0
    return tmp_path / "d"


def test_what_was_made_is_listed_and_shown(directory: Path) -> None:
    added = run("make", directory, "--client", "bob", "--output", "jsonl").stdout.splitlines()
    assert [json.loads(row)["principal"] for row in added] == ["User:CN=bob"] * 2
    assert "has all of it already" in run("make", directory).stderr

    (broker,) = shown(directory / "broker.pem")
    assert {"localhost", "127.0.0.1", "::1"} < set(broker["names"])
    assert (broker["private_key"], broker["days_left"], broker["wrong"]) == ("fits", 29, None)
    ann, authority = shown(directory / "ann.properties")
    assert (ann["principal"], ann["private_key"], ann["key"]) == ("User:CN=ann", "fits", "EC P-256")
    assert authority["is_authority"]
    assert ann["issuer"] == authority["subject"]
    assert shown(directory / "ca.pem")[0]["private_key"] == "not here"


def test_a_key_of_another_certificate_and_files_without_one_are_named(directory: Path) -> None:
    mixed = directory / "mixed.pem"
    key = (directory / "broker.pem").read_text().partition("-----BEGIN CERTIFICATE")[0]
    mixed.write_text(key + (directory / "ca.pem").read_text())

    code, sentence = refusal("show", mixed)
    assert code == ExitCode.ITEM_FAILED
    assert sentence.endswith(": its key is of another certificate")
    for place, reason in (
        (directory / "ca.key", "has no certificate to show: it has no -----BEGIN CERTIFICATE-----"),
        (directory, "Is a directory"),
        ("nothing.pem", "'nothing.pem' is neither a file nor HOST:PORT"),
    ):
        code, sentence = refusal("show", place)
        assert code == ExitCode.USAGE
        assert reason in sentence
    assert refusal("make", directory, "--client", "ann")[0] == ExitCode.USAGE


def test_a_server_is_asked_for_its_certificates(directory: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    chain = directory / "chain.pem"
    chain.write_text((directory / "ann.pem").read_text() + (directory / "ca.pem").read_text())
    context.load_cert_chain(chain)

    with create_server(("127.0.0.1", 0)) as server:
        place = f"127.0.0.1:{server.getsockname()[1]}"

        def serve() -> None:
            with context.wrap_socket(server.accept()[0], server_side=True) as secured:
                secured.recv(1)
            with server.accept()[0] as plain:
                plain.recv(1)

        thread = Thread(target=serve)
        thread.start()
        result = run("show", place, "--output", "json")
        own, authority = json.loads(result.stdout)
        assert own["subject"] == "CN=ann"
        assert own["issuer"] == authority["subject"]
        assert (own["is_authority"], authority["is_authority"]) == (False, True)
        assert "not for the name 127.0.0.1" in str(result.exception)
        code, sentence = refusal("show", place)
        thread.join()

    assert code == ExitCode.CANNOT_CONNECT
    assert "does not speak TLS" in sentence
    assert "cannot connect" in refusal("show", place)[1]
