"""What a function of users says of a password lets somebody in only if it is True."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from kbroker.config.kafka_config import KafkaConfig
from kbroker.sasl.exchange import Identity, LoginRefusedError
from kbroker.sasl.made_up_users import MadeUpUsers
from kbroker.server.broker.login_offers import LoginMeans, judge_of, offers_of
from kbroker.server.system_clock import SystemClock

CHECKS = """
import sys
async def waits(username, password): return False
def text(username, password): return "no"
def none(username, password): return None
def ends(username, password): sys.exit(1)
def right(username, password): return password == "right"
"""
SETTINGS = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms": "PLAIN"}
HANDLER = "listener.name.sasl_plaintext.plain.sasl.server.callback.handler.class"


@pytest.mark.filterwarnings("ignore:coroutine")
def test_only_true_lets_somebody_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_checks.py").write_text(CHECKS)
    monkeypatch.syspath_prepend(tmp_path)

    def log_in(check: str, password: str = "wrong") -> Identity | None:
        config = KafkaConfig({**SETTINGS, HANDLER: f"my_checks:{check}"})
        means = LoginMeans(
            lambda _mechanism, _name: None,
            partial(MadeUpUsers().credential, b""),
            lambda listener: judge_of(config, listener, SystemClock()),
        )
        exchange = offers_of(config, "SASL_PLAINTEXT", means)["PLAIN"].begin()
        return exchange.receive(b"\0ann\0" + password.encode()).identity

    for check, reason in (
        ("waits", "gave a coroutine"),
        ("text", "gave a str"),
        ("none", "gave a NoneType"),
        ("ends", "ended by SystemExit"),
        ("right", "no such user, or a wrong password"),
    ):
        with pytest.raises(LoginRefusedError, match=reason):
            log_in(check)
    assert log_in("right", "right") == Identity("ann")
