"""The benchmark of requests: its generators send what they say, refusals are no figures, every load
works, and what pages say of its commands holds.
"""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from benchmarks import __main__ as command
from benchmarks import (
    generator,
    raw_client,
    references,
    request_loads,
    rounds,
    ruled_loads,
    secured_brokers,
    secured_loads,
    tables,
)
from benchmarks.client_loads import ClientLoad
from benchmarks.generator import Traffic
from benchmarks.preparations import new_topic
from benchmarks.processes import RunningBroker, kbroker
from benchmarks.request_kinds import Delivered, Fetch, Produce, delivery_at
from compat_tests.running import apache_kafka
from compat_tests.running.prerequisites import NotAvailableError
from kbroker.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse

ROOT = Path(__file__).parents[2]
PYTHON = (sys.executable, str(ROOT / "benchmarks" / "generator" / "python_generator.py"))
ONE_KB = Produce(batch_bytes=1_024, record_bytes=100, partitions=3)


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    with kbroker() as started:
        yield started


@pytest.fixture(params=["C", "Python"])
def language(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Have the generator of that language send."""
    if request.param == "Python":
        monkeypatch.setattr(generator, "program", lambda: PYTHON)
    elif generator.language() != "C":
        pytest.skip("no C compiler")
    return str(request.param)


def ends_of(broker: RunningBroker, topic: str, partitions: int) -> list[int]:
    wanted = [
        ListOffsetsRequest.ListOffsetsPartition(partition_index=number, timestamp=-1)
        for number in range(partitions)
    ]
    asked = ListOffsetsRequest(
        topics=[ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=wanted)]
    )
    client = raw_client.RawClient(broker.address)
    answer: Any = client.call(asked, 2, 7, ListOffsetsResponse)
    client.close()
    return sorted(each.offset for each in answer.topics[0].partitions)


@pytest.mark.usefixtures("language")
@pytest.mark.parametrize(("connections", "in_flight"), [(1, 1), (1, 5), (7, 3), (3, 7)])
def test_as_many_requests_as_asked_for_take_turns_over_the_frames(
    broker: RunningBroker, connections: int, in_flight: int
) -> None:
    made = ONE_KB.made(broker, most=3)
    traffic = Traffic(
        frames=made.frames, in_flight=in_flight, connections=connections, error_at=made.error_at
    )
    sent = generator.send(broker.address, traffic, 60, [broker.process.pid])
    first = connections if connections > 1 else 0  # by which each connection is known to be there
    assert sent.count == 60
    assert sent.sent == 60 + first
    assert sent.cpu_ns > 0
    ends = ends_of(broker, made.topics[0], 3)
    assert sum(ends) == (3 + 60 + first) * 9
    assert ends[-1] - ends[0] <= 9


@pytest.mark.usefixtures("language")
def test_a_sequence_goes_on_over_several_runs(broker: RunningBroker) -> None:
    made = Produce(batch_bytes=1_024, record_bytes=100, acks=-1, idempotent=True).made(broker, 1)
    sent = 0
    for _ in range(3):
        traffic = Traffic(
            frames=made.frames, in_flight=5, error_at=made.error_at, batch_at=made.batch_at,
            first=sent,
        )  # fmt: skip
        sent = generator.send(broker.address, traffic, 50).sent
    assert ends_of(broker, made.topics[0], 1) == [(1 + 150) * 9]


@pytest.mark.usefixtures("language")
def test_an_answer_with_an_error_gives_no_figures(broker: RunningBroker) -> None:
    made = ONE_KB.made(broker, most=1)
    elsewhere = raw_client.produce_frame(made.topics[0], raw_client.batch_of(100), 1, partition=8)
    refused = Traffic(frames=[*made.frames, elsewhere], error_at=made.error_at)
    with pytest.raises(RuntimeError, match="error"):
        generator.send(broker.address, refused, 2)


@pytest.mark.usefixtures("language")
def test_a_fetch_session_goes_on_over_several_runs(broker: RunningBroker) -> None:
    load = Fetch(batch_bytes=1_024, record_bytes=100, batches=20, in_session=True)
    made = load.made(broker, most=1)
    client = raw_client.RawClient(broker.address)
    client.send(made.frames[0])
    assert len(client.receive()) > 1_000
    client.close()
    traffic = Traffic(frames=made.frames, error_at=made.error_at, rising_at=made.rising_at, first=1)
    sent = generator.send(broker.address, traffic, 30).sent
    generator.send(broker.address, replace(traffic, first=sent), 30)
    with pytest.raises(RuntimeError, match="error"):
        generator.send(broker.address, replace(traffic, first=sent), 1)


@pytest.mark.usefixtures("language")
@pytest.mark.parametrize(("per_s", "in_session"), [(0, False), (2_000, False), (0, True)])
def test_a_waiting_consumer_has_every_record(
    broker: RunningBroker, per_s: int, in_session: bool
) -> None:
    topic = new_topic(broker)
    delivery = delivery_at(broker.address, topic, 100, acks=-1, in_session=in_session)
    sent = generator.deliver(broker.address, delivery, 100, [broker.process.pid], per_s)
    assert sent.count == 100
    assert 0 < sent.p50_ns <= sent.p99_ns
    assert ends_of(broker, topic, 1) == [101]


@pytest.mark.parametrize("name", sorted(references.bare_loops()))
def test_a_bare_loop_writes_the_batches_and_answers_in_order(name: str, tmp_path: Path) -> None:
    sends = Produce(batch_bytes=1_024, record_bytes=100)
    frame, answer, at, size = sends.bare()
    with references.bare_loop(name, sends) as loop:
        with socket.create_connection(loop.address) as client:
            numbered = [frame[:8] + bytes([0, 0, 0, n]) + frame[12:] for n in range(3)]
            client.sendall(b"".join(numbered))
            answers = bytearray()
            while len(answers) < 3 * len(answer):
                answers += client.recv(4_096)
        traffic = Traffic(frames=[frame], in_flight=5)
        assert generator.send(loop.address, traffic, 20).count == 20
    wanted = [answer[:4] + bytes([0, 0, 0, n]) + answer[8:] for n in range(3)]
    assert bytes(answers) == b"".join(wanted)
    assert raw_client.produced(memoryview(answers)[4 : len(answer)]) == 0
    assert frame[at : at + size].startswith(bytes(8))


def test_every_load_gives_figures_in_a_trial(capsys: pytest.CaptureFixture[str]) -> None:
    command.main(["requests", "--quick"])
    printed = capsys.readouterr().out
    silent = [load.name for load in request_loads.LOADS if f"| {load.name} " not in printed]
    assert silent == []
    assert "a trial, not a measurement" in printed


def test_every_load_over_tls_and_with_logins_gives_figures_in_a_trial() -> None:
    loads = [each for each in secured_loads.LOADS if not isinstance(each, ClientLoad)]
    starts = {"kbroker": partial(secured_brokers.running, "kbroker")}
    trial = rounds.standing(loads, starts, 1, request_loads.QUICK)
    found = [load for figures in trial for (load, _), of in figures.items() if min(of["kbroker"])]
    silent = {load.name for load in loads} - set(found)
    assert silent <= {"SSL: 1,000 idle connections"}  # ten take less than a page


def test_every_load_under_rules_gives_figures_in_a_trial() -> None:
    loads = [each for each in ruled_loads.LOADS if "10,000 topics" not in each.name]
    starts = {"kbroker": partial(ruled_loads.running, "kbroker")}
    trial = rounds.standing(loads, starts, 1, request_loads.QUICK)
    found = [load for figures in trial for (load, _), of in figures.items() if min(of["kbroker"])]
    assert {load.name for load in loads} <= set(found)


def test_a_load_is_compared_with_all_that_is_here(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        apache_kafka.jars()
    except NotAvailableError as error:
        pytest.skip(str(error))
    with_kfake = [rounds.KFAKE] if references.kfake_program() else []

    command.main(["--versus-apache", "--quick", "--only", "100 b, acks=all", "requests"])

    printed = capsys.readouterr().out
    head, _, row = [line for line in printed.splitlines() if line.startswith("|")][:3]
    names = ["kbroker", "apache", *with_kfake, *references.bare_loops()]
    assert [cell.strip() for cell in head.split("|")][3 : 3 + len(names)] == names
    assert all(cell.strip() for cell in row.split("|")[1:-1])


def test_names_of_loads_are_their_own() -> None:
    names = [load.name for loads in command.STANDING.values() for load in loads]
    assert len(names) == len(set(names))
    assert {type(load.sends) for load in request_loads.LOADS} > {Produce, Delivered}


def test_the_worst_row_stands_beside_the_best() -> None:
    results = {
        ("fetch", "cpu_us_per_request"): {"kbroker": [50.0, 70.0, 60.0], "apache": [100.0]},
        ("commit", "cpu_us_per_request"): {"kbroker": [150.0], "apache": [100.0]},
        ("fetch", "requests_per_s"): {"kbroker": [200.0], "apache": [100.0]},
        ("commit", "requests_per_s"): {"kbroker": [50.0], "apache": [100.0]},
        ("alone", "p99_ms"): {"kbroker": [1.0], "apache": [2.0]},
    }
    assert tables.best_and_worst(results) == [
        "cpu_us_per_request beside apache: best 0.60 (fetch), worst 1.50 (commit)",
        "requests_per_s beside apache: best 2.00 (fetch), worst 0.50 (commit)",
    ]


def commands_of_pages() -> list[str]:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    text = " ".join(" ".join(page.read_text(encoding="utf-8") for page in pages).split())
    given = re.findall(r"`make bench(?:-vs-apache)? ARGS=(?:'([^'`]*)'|(\w+))`", text)
    return [quoted or word for quoted, word in given]


def test_every_command_of_the_pages_finds_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    found = commands_of_pages()
    assert len(found) > 5
    run: list[str] = []
    monkeypatch.setattr(command.rounds, "fresh", lambda group, rows, *_: run.append(group) or {})
    monkeypatch.setattr(command, "_run_standing", lambda group, *_: run.append(group) or {})
    for arguments in found:
        run.clear()
        command.main(arguments.split())
        assert run, arguments
