"""The HTTP address: from a listening socket to a thread that ends with the broker."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import MutableMapping
from contextlib import suppress
from http.client import HTTPException
from typing import Any
from unittest.mock import Mock

import pytest

from kbroker.errors import ConfigError
from kbroker.http.answers import Receive, Send
from kbroker.http.connection import HttpConnection, Limits, Shared
from kbroker.http.guard import Guard
from kbroker.http.health import Check
from kbroker.http.http_server import HttpServer
from kbroker.model import EndPoint
from tests.fakes.running.http_here import LARGE_BYTES, HttpHere

IMPATIENT = Limits(look_s=0.05, connections=4)


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "http"]


def read_all(connection: socket.socket) -> bytes:
    """Return all bytes until the connection ends, in whatever way."""
    received = bytearray()
    try:
        while chunk := connection.recv(1 << 20):
            received += chunk
    except ConnectionError:
        pass
    return bytes(received)


def status_of(path: str, here: HttpHere) -> int:
    """The status of an answer, 0 if the connection was refused before it could ask."""
    try:
        return here.get(path)[0]
    except (ConnectionError, HTTPException):
        return 0


def send_without_end(connection: socket.socket, sent: bytes) -> None:
    while True:
        connection.sendall(sent)


def test_nothing_is_loaded_before_the_first_connection_and_the_thread_does_not_wake() -> None:
    program = (
        "import asyncio, sys, threading\n"
        "from kbroker.http.http_server import HttpServer\n"
        "from kbroker.model import EndPoint\n"
        "async def main():\n"
        "    server = HttpServer([EndPoint(listener_name='HTTP', host='127.0.0.1', port=0)], None)\n"
        "    server.start()\n"
        "    (thread,) = [each for each in threading.enumerate() if each.name == 'http']\n"
        "    while ') S ' not in open(f'/proc/self/task/{thread.native_id}/stat').read():\n"
        "        pass  # until it sleeps\n"
        "    print({'h11', 'ipaddress'} & set(sys.modules))\n"
        "    await server.stop()\n"
        "    print(threading.active_count())\n"
        "asyncio.run(main())\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True
    )
    assert (said.stdout, said.stderr) == ("set()\n1\n", "")


def test_a_live_broker_says_so() -> None:
    with HttpHere() as here:
        assert here.get("/livez") == (200, "ok\n")


def test_a_loop_that_is_held_is_reported_within_two_seconds_also_to_the_first_who_asks() -> None:
    with HttpHere() as here, here.held():
        connection = here.connect()
        connection.timeout = 2
        connection.request("GET", "/livez")
        assert connection.getresponse().status == 503
        connection.close()


def test_a_loop_that_is_held_is_reported_within_two_seconds() -> None:
    with HttpHere() as here:
        assert here.get("/livez")[0] == 200
        with here.held():
            connection = here.connect()
            connection.timeout = 2
            connection.request("GET", "/livez")
            assert connection.getresponse().status == 503
            connection.close()
            status, text = here.get("/readyz")
        assert status == 503
        assert [row["name"] for row in json.loads(text)["checks"]] == ["loop"]
        assert here.get("/livez")[0] == 200


def test_a_broker_that_lacks_something_is_not_ready_unless_that_is_excluded() -> None:
    with HttpHere() as here:
        assert here.get("/readyz")[0] == 200
        here.checks = [Check(name="disks", problem="offline: /data")]

        status, text = here.get("/readyz")
        assert status == 503
        assert json.loads(text) == {
            "ready": False,
            "checks": [{"name": "disks", "ok": False, "problem": "offline: /data"}],
        }
        assert here.get("/readyz?exclude=disks")[0] == 200
        assert here.get("/readyz?exclude=disk")[0] == 400


def test_who_has_no_token_hears_no_details_and_nothing_else() -> None:
    with HttpHere(guard=Guard(token="geheim")) as here:
        here.checks = [Check(name="disks", problem="offline: /data")]

        assert here.get("/livez")[0] == 200
        assert "/data" not in here.get("/readyz")[1]
        assert "/data" in here.get("/readyz", Authorization="Bearer geheim")[1]
        assert here.get("/large")[0] == here.get("/nothing")[0] == 401
        assert here.get("/nothing", Authorization="Bearer geheim")[0] == 404


def test_foreign_pages_and_other_methods_are_refused() -> None:
    with HttpHere() as here:
        assert here.get("/livez", Host="evil.example")[0] == 403
        assert here.get("/livez", Origin="http://evil.example")[0] == 403
        connection = here.connect()
        connection.request("POST", "/livez", body="a=b", headers={"Content-Type": "text/plain"})
        answer = connection.getresponse()
        assert (answer.status, answer.getheader("allow")) == (405, "GET, HEAD")
        connection.close()


def test_a_head_request_gets_the_size_and_no_body() -> None:
    with HttpHere() as here:
        connection = here.connect()
        connection.request("HEAD", "/livez")
        answer = connection.getresponse()
        assert (answer.status, answer.getheader("content-length"), answer.read()) == (200, "3", b"")
        connection.close()


def test_a_bug_is_answered_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    with HttpHere() as here:
        assert here.get("/broken") == (500, "internal error: the log of the broker has it\n")
        assert here.get("/livez")[0] == 200
    assert "a bug" in caplog.text


def test_requests_that_are_sent_ahead_are_answered_in_order() -> None:
    with HttpHere() as here, here.raw() as connection:
        one = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
        last = b"GET /nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        connection.sendall(one * 200 + last)

        answers = read_all(connection)

    assert answers.count(b"HTTP/1.1 200") == 200
    assert answers.count(b"HTTP/1.1 404") == 1


def test_a_body_that_nobody_reads_is_passed_over_and_what_follows_the_last_request_too() -> None:
    with HttpHere() as here, here.raw() as connection:
        head = b"POST /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200000\r\n\r\n"
        last = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        connection.sendall(head)
        answers = connection.recv(1 << 16)
        connection.sendall(b"a" * 200_000 + last + b"\x00 no request")

        answers += read_all(connection)

    assert [answers.count(b"HTTP/1.1 " + each) for each in (b"405", b"200", b"")] == [1, 1, 2]


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nHost: " + b"a" * 100_000,
        b"\x00\x00\x00\x14\x00\x12\x00\x03\x00\x00\x00\x01\x00\x01a" * 1000,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\r\n\r\n",
        b"GET /livez HTTP/1.1\r\n\r\n",
    ],
    ids=["endless head", "Kafka", "TLS", "no host"],
)
def test_what_is_no_request_is_refused_and_the_connection_ends(sent: bytes) -> None:
    with HttpHere() as here:
        with here.raw() as connection:
            with suppress(ConnectionError):
                connection.sendall(sent)
            assert read_all(connection)[:12] in (b"HTTP/1.1 400", b"")
        assert here.get("/livez")[0] == 200


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /livez HTTP/1.1\r\nHost: local",
        b"POST /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\nabc",
    ],
    ids=["silent", "half a head", "half a body"],
)
def test_a_client_that_does_not_finish_its_request_is_cut_off(sent: bytes) -> None:
    with HttpHere(IMPATIENT) as here, here.raw() as connection:
        connection.sendall(sent)
        assert read_all(connection).count(b"HTTP/1.1") <= 1


def test_a_body_without_end_is_cut_off() -> None:
    with HttpHere(IMPATIENT) as here, here.raw() as connection:
        connection.sendall(
            b"POST /livez HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        with pytest.raises(ConnectionError):
            send_without_end(connection, b"400\r\n" + b"a" * 1024 + b"\r\n")


def test_a_client_that_stops_reading_is_cut_off() -> None:
    with HttpHere(IMPATIENT) as here, here.raw() as connection:
        connection.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
        here.wait_until_no_connection_is_open()
        assert len(read_all(connection)) < LARGE_BYTES


def test_a_client_that_reads_gets_all_of_a_large_answer() -> None:
    with HttpHere() as here:
        assert len(here.get("/large")[1]) == LARGE_BYTES


def test_connections_beyond_the_limit_are_refused_and_there_is_room_again_later() -> None:
    with HttpHere(Limits(connections=4)) as here:
        crowd = [here.raw() for _ in range(100)]

        refused = [read_all(connection) for connection in crowd[4:]]
        for connection in crowd:
            connection.close()

        assert all(b"503 Service Unavailable" in answer for answer in refused)
        while status_of("/livez", here) != 200:  # until it has seen that they are gone
            pass


def test_a_crowd_that_asks_nothing_makes_room_for_who_asks() -> None:
    with HttpHere(Limits(connections=4, rest_s=0.01)) as here:
        crowd = [here.raw() for _ in range(4)]
        while status_of("/livez", here) != 200:  # until they have rested for a while
            pass
        assert [status_of("/livez", here) for _ in range(10)] == [200] * 10
        for connection in crowd:
            connection.close()


class Reader:
    """Waits for the whole body of each request, as a login does."""

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body"):
            pass

    def close(self) -> None:
        pass


def test_a_crowd_that_sends_no_whole_request_makes_room_for_who_asks() -> None:
    with HttpHere(Limits(connections=4, rest_s=0.01, look_s=3600), otherwise=Reader()) as here:
        crowd = [here.raw() for _ in range(4)]
        for connection in crowd:
            connection.sendall(
                b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"
            )
        while status_of("/livez", here) != 200:  # until they have rested for a while
            pass
        for connection in crowd:
            connection.close()


async def test_a_client_by_ipv4_at_a_socket_for_both_has_its_own_address() -> None:
    connection = HttpConnection(Shared(Reader(), Limits()))
    connection.transport = Mock(get_extra_info=lambda _: ("::ffff:10.0.0.1", 5, 0, 0))

    assert connection.client == ("10.0.0.1", 5)


def test_a_client_that_reads_slowly_is_cut_off_if_too_much_waits_for_such_clients() -> None:
    with HttpHere(Limits(look_s=0.05, waiting_bytes=0)) as here, here.raw() as connection:
        connection.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
        received = 0
        with suppress(ConnectionError):
            while size := len(connection.recv(64)):
                received += size

        assert 0 < received < LARGE_BYTES


def test_a_stop_cuts_open_connections_and_ends_the_thread() -> None:
    with HttpHere() as here:
        idle, reading = here.raw(), here.raw()
        reading.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert here.get("/livez")[0] == 200
        assert threads()

        here.stop()

        assert not threads()
        assert read_all(idle) == b""
        read_all(reading)
        idle.close()
        reading.close()


def test_a_stop_before_the_first_connection_frees_the_port() -> None:
    with HttpHere() as here:
        here.stop()
        with pytest.raises(ConnectionRefusedError):
            here.raw()


async def test_a_taken_port_is_refused_or_the_next_free_one_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        wanted = EndPoint(listener_name="HTTP", host="127.0.0.1", port=taken.getsockname()[1])
        strict = HttpServer([wanted], None)
        moving = HttpServer([wanted], None, may_move=True)

        with pytest.raises(ConfigError, match=r"kbroker\.http\.listeners: cannot listen on"):
            strict.start()
        moving.start()

        assert moving.end_points[0].port not in (0, wanted.port)
        await moving.stop()
        await strict.stop()
