"""What is fetched from files and web servers, good ones and bad ones."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest

from kbroker.tokens.web_fetch import BYTES_MAX, WebPlace, fetch
from tests.fakes.tokens.issuer import Issuer, served


def test_keys_come_from_a_file_and_from_a_web_server(tmp_path: Path) -> None:
    issuer = Issuer()
    file = tmp_path / "the keys.json"
    file.write_bytes(issuer.key_set())
    with served(issuer) as url:
        answer = fetch(WebPlace(url=f"{url}/keys?a=b"))
        issuer.failing = (302, b"go away")
        elsewhere = fetch(WebPlace(url=url))

    assert (answer.status, answer.content) == (200, issuer.key_set())
    assert elsewhere.status == 302  # it is not followed
    assert issuer.asked == ["GET /keys?a=b", "GET /"]
    assert fetch(WebPlace(url=file.as_uri())).content == issuer.key_set()


def test_what_is_too_large_or_not_there_is_an_error(tmp_path: Path) -> None:
    issuer = Issuer()
    issuer.failing = (200, b"x" * (BYTES_MAX + 1))
    file = tmp_path / "large"
    file.write_bytes(issuer.failing[1])
    with served(issuer) as url:
        for place in (url, file.as_uri()):
            with pytest.raises(OSError, match="more than 1,048,576 bytes"):
                fetch(WebPlace(url=place))

    os.mkfifo(tmp_path / "pipe")
    for place in (url, (tmp_path / "missing").as_uri(), (tmp_path / "pipe").as_uri()):
        with pytest.raises(OSError, match=r"refused|No such file|it is a pipe"):
            fetch(WebPlace(url=place))


@pytest.mark.parametrize(
    "drop", [b"", b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n1"]
)
def test_a_server_that_never_ends_its_answer_is_cut_off(drop: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        taken: list[socket.socket] = []

        def take() -> None:
            taken.append(listening.accept()[0])
            taken[0].sendall(drop)

        thread = threading.Thread(target=take)
        thread.start()
        place = WebPlace(url=f"http://127.0.0.1:{listening.getsockname()[1]}", total_s=0.05)
        with pytest.raises(OSError, match=r"as it should|not whole after 0.05 s"):
            fetch(place)
        thread.join()
        taken[0].close()
