"""A connection whose client has to log in: what goes further, what is answered, and when."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kbroker.network.receive_buffers import BASE_BYTES
from kbroker.network.request_channel import Replier
from kbroker.protocol.request import Accepted, Request, Response
from kbroker.sasl.login_gate import LoginGate, Offer
from kbroker.sasl.plain import PlainServer
from tests.fakes.requests.login_listener import (
    BEFORE_LOGIN_BYTES_MAX,
    FRAME_BYTES_MAX,
    LoginListener,
    sized,
)
from tests.fakes.running.waiting import until
from tests.unit.sasl.logins import (
    ANN,
    BOB,
    USERS,
    WRONG,
    answer_versions,
    authenticate,
    gate,
    handshake,
    produce,
    versions,
)

ALL_OF_A_LOGIN = (versions(), handshake(), authenticate())


def recording(listener: LoginListener) -> list[tuple[Replier, Request]]:
    """Attach what takes the place of the broker: it answers nothing by itself."""
    passed: list[tuple[Replier, Request]] = []
    listener.queue.attach(lambda *each: passed.append(each), lambda *_: None)
    return passed


@pytest.mark.parametrize("chunk", [1, 7, 1_000])
async def test_requests_that_are_sent_ahead_pass_after_the_login_alone(chunk: int) -> None:
    listener = LoginListener(gate)
    passed = recording(listener)
    client = await listener.connect()
    data = sized(*ALL_OF_A_LOGIN, produce(), produce())
    answers: list[bytes] = []
    for at in range(0, len(data), chunk):
        assert client.channel.is_stranger or len(answers) == 3
        answers += await client.send_bytes(data[at : at + chunk])

    assert len(answers) == 3
    assert client.principal == "User:ann"
    assert [request.header.api_key for _, request in passed] == [0]
    assert len(listener.processor.strangers) == 0
    passed[0][0].complete(Response([b"done"]))
    assert await client.answers() == [b"done"]
    assert len(passed) == 2


@pytest.mark.parametrize(
    "sent",
    [
        [produce()],
        [versions(), produce(), *ALL_OF_A_LOGIN],
        [handshake(), authenticate(WRONG), authenticate(), produce()],
        [handshake("GSSAPI"), produce()],
        [handshake(), produce(), authenticate()],
        [handshake(version=0), WRONG, ANN, produce()],
    ],
    ids=range(6),
)
async def test_a_client_that_does_not_log_in_reaches_nothing(
    sent: list[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    listener = LoginListener(gate)
    passed = recording(listener)
    client = await listener.connect()

    await client.send(*sent)
    await asyncio.sleep(0.001)
    await client.send(*ALL_OF_A_LOGIN, produce())

    assert (passed, client.wire.is_closed, client.principal) == ([], True, "User:ANONYMOUS")
    (line,) = caplog.messages
    assert "in the client" in line or "check user and password" in line
    assert "secret" not in line
    assert listener.processor.failed_logins.value == 1


async def test_a_failed_login_is_answered_after_the_delay_and_nothing_is_read_meanwhile() -> None:
    listener = LoginListener(gate)
    passed = recording(listener)
    listener.processor.strangers.failed_delay_ms = 5
    client = await listener.connect()

    sent = await client.send(handshake(), authenticate(WRONG), produce())

    assert len(sent) == 1
    assert client.channel.is_busy
    await until(lambda: client.wire.is_closed)
    assert b"Invalid username or password" in (await client.answers())[0]
    assert passed == []


async def test_a_refused_client_reads_the_answer_before_it_hears_of_the_end() -> None:
    listener = LoginListener(gate)
    passed = recording(listener)
    listener.processor.linger_s = 0.01
    patient, gone = await listener.connect(), await listener.connect()

    for client in (patient, gone):
        assert len(await client.send(handshake(), authenticate(WRONG))) == 2
        assert not client.wire.is_closed
        assert await client.send(authenticate(), produce()) == []
    gone.channel.eof_received()

    assert gone.wire.is_closed
    await until(lambda: patient.wire.is_closed)
    assert (passed, listener.processor.failed_logins.value) == ([], 2)


async def test_a_login_is_answered_though_no_request_is_served_yet() -> None:
    listener = LoginListener(gate, queued_max=1)
    other, client = await listener.connect(), await listener.connect()
    await other.send(*ALL_OF_A_LOGIN, produce())
    assert listener.queue.is_full

    assert len(await client.send(*ALL_OF_A_LOGIN, produce())) == 3
    assert len(listener.queue) == 1


async def test_a_judge_that_takes_its_time_keeps_its_own_connection_waiting() -> None:
    offers = {"PLAIN": Offer(lambda: PlainServer(USERS), is_slow=True)}
    listener = LoginListener(lambda: LoginGate(offers, answer_versions))
    passed = recording(listener)
    client, gone = await listener.connect("2001:db8::1"), await listener.connect("2001:db8::2")

    assert len(await client.send(*ALL_OF_A_LOGIN, produce())) == 2
    await gone.send(*ALL_OF_A_LOGIN)
    assert len(listener.judged) == 2
    assert len(set(listener.askers)) == 1  # one machine may have all addresses of a network
    gone.channel.close()
    await gone.answers()
    assert len(listener.judged) == 1  # nothing of it waits for a judge that may never answer
    for judge in listener.judged:
        judge()

    assert len(await client.answers()) == 1
    assert (client.principal, gone.principal) == ("User:ann", "User:ANONYMOUS")
    assert len(passed) == 1


async def test_only_frames_with_the_sign_of_a_slow_judge_go_to_a_thread() -> None:
    offer = Offer(lambda: PlainServer(USERS), is_slow=True, slow_sign=b"bob")
    listener = LoginListener(lambda: LoginGate({"PLAIN": offer}, answer_versions))
    quick, slow = await listener.connect(), await listener.connect()

    assert len(await quick.send(*ALL_OF_A_LOGIN)) == 3
    assert len(await slow.send(versions(), handshake(), authenticate(BOB))) == 2
    assert len(listener.judged) == 1
    listener.judged[0]()
    assert len(await slow.answers()) == 1
    assert (quick.principal, slow.principal) == ("User:ann", "User:bob")


@pytest.mark.parametrize("is_slow", [False, True])
async def test_what_strangers_send_ahead_takes_little_memory(is_slow: bool) -> None:
    offers = {"PLAIN": Offer(lambda: PlainServer(USERS), is_slow=is_slow)}
    listener = LoginListener(lambda: LoginGate(offers, answer_versions))
    listener.processor.strangers.failed_delay_ms = 60_000
    client = await listener.connect()
    await client.send(handshake(), authenticate(WRONG))

    await client.send_bytes(sized(bytes(900_000)))

    assert client.channel.bytes_in <= 2 * BASE_BYTES
    client.channel.close()


@pytest.mark.parametrize("is_slow", [False, True])
async def test_a_judge_with_a_bug_ends_the_login_without_a_word_of_what_it_knew(
    is_slow: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_name: str, password: str) -> bool:
        raise RuntimeError(f"no {password} here")

    offers = {"PLAIN": Offer(lambda: PlainServer(broken), is_slow=is_slow)}
    listener = LoginListener(lambda: LoginGate(offers, answer_versions))
    passed = recording(listener)
    client = await listener.connect()

    await client.send(*ALL_OF_A_LOGIN, produce())
    for judge in listener.judged:
        judge()
    await client.answers()

    assert (client.wire.is_closed, passed) == (True, [])
    assert "RuntimeError" in caplog.text
    assert "ann-secret" not in caplog.text


async def test_a_login_again_has_its_answer_behind_those_of_requests_before_it() -> None:
    listener = LoginListener(lambda: gate(session_ms_max=5_000))
    outcomes: list[asyncio.Future[Any]] = []
    passed: list[Replier] = []

    def append(replier: Replier, _request: Request) -> None:
        outcomes.append(asyncio.get_running_loop().create_future())
        passed.append(replier.accept(Accepted(outcomes[-1], lambda: None).outcome))

    listener.queue.attach(append, lambda *_: None)
    client = await listener.connect()
    await client.send(*ALL_OF_A_LOGIN)
    listener.time.advance(5_000)

    assert await client.send(handshake()) != []
    assert await client.send(authenticate(), produce(), produce(), handshake()) != []
    assert (len(passed), await client.answers()) == (2, [])
    listener.time.advance(1_000)
    passed[1].complete(Response([b"second"]))
    passed[0].complete(Response([b"first"]))
    first, second, mechanisms = await client.answers()

    assert (first, second, b"PLAIN" in mechanisms) == (b"first", b"second", True)
    assert await client.send(authenticate()) != []


async def test_a_session_that_has_expired_ends_after_the_answers_to_what_was_stored() -> None:
    listener = LoginListener(lambda: gate(session_ms_max=5_000))
    passed: list[Replier] = []
    listener.queue.attach(
        lambda replier, _: passed.append(replier.accept(asyncio.get_running_loop().create_future()))
    )
    client = await listener.connect()
    await client.send(*ALL_OF_A_LOGIN, produce())
    await client.answers()
    listener.time.advance(5_000)

    assert await client.send(produce()) == []
    assert not client.wire.is_closed
    passed[0].complete(Response([b"stored"]))

    assert await client.answers() == [b"stored"]
    assert client.wire.is_closed
    assert len(passed) == 1


async def test_frames_are_small_until_the_login_is_done(caplog: pytest.LogCaptureFixture) -> None:
    listener = LoginListener(gate)
    passed = recording(listener)
    client, stranger = await listener.connect(), await listener.connect()
    await client.send(*ALL_OF_A_LOGIN)
    large = produce() + bytes(FRAME_BYTES_MAX // 2)

    await client.send(large)
    await stranger.send_bytes(sized(handshake()) + (BEFORE_LOGIN_BYTES_MAX + 1).to_bytes(4, "big"))

    assert len(passed) == 1
    assert stranger.wire.is_closed
    assert "frame of 1025 bytes before a login, limit 1024" in caplog.text
