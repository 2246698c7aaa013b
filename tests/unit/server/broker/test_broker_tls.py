"""Certificates of listeners that change while a broker runs."""

from __future__ import annotations

import logging
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import ConfigError
from kbroker.server.broker.broker_tls import LOOK_MS, BrokerTls
from tests.fakes.certificates import Authority, Issued
from tests.fakes.running.virtual_time import VirtualTime

PREFIX = "listener.name.outside."


class Changing:
    """A broker's TLS with one file of a certificate, which a test replaces."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder)
        self._file = folder / "broker-in-force.pem"
        self.replace(self.authority.issue("first", subject="/CN=b1", names=("DNS:b1", "DNS:old")))
        self.clock = VirtualTime(int(datetime.now(UTC).timestamp() * 1000))
        self.tls = BrokerTls(self.config(), self.clock)
        self.tls.start()

    def config(self, **more: str) -> KafkaConfig:
        return KafkaConfig(
            {
                "listeners": "OUTSIDE://:0",
                "listener.security.protocol.map": "OUTSIDE:SSL",
                "inter.broker.listener.name": "OUTSIDE",
                f"{PREFIX}ssl.keystore.type": "PEM",
                f"{PREFIX}ssl.keystore.location": str(self._file),
                **more,
            }
        )

    def replace(self, issued: Issued) -> None:
        new = self._file.with_suffix(".new")
        new.write_text(issued.pem.read_text())
        os.replace(new, self._file)

    def look(self) -> None:
        self.clock.advance(LOOK_MS)

    @property
    def shown(self) -> tuple[str, frozenset[str]]:
        """The names of the certificate in force."""
        (listener,) = (self.tls.at(each) for each in self.config().end_points())
        return listener.tls.certificate.subject, listener.tls.certificate.alternative_names


@pytest.fixture
def changing(tmp_path: Path) -> Changing:
    return Changing(tmp_path)


def test_a_new_file_is_seen_and_one_that_is_no_use_leaves_the_old_in_force(
    changing: Changing, caplog: pytest.LogCaptureFixture
) -> None:
    old = "CN=b1", frozenset({"DNS:b1", "DNS:old"})
    wider = changing.authority.issue("w", subject="/CN=b1", names=("DNS:b1", "DNS:old", "DNS:new"))
    other = changing.authority.issue("other", subject="/CN=b2", names=("DNS:b1", "DNS:old"))
    fewer = changing.authority.issue("fewer", subject="/CN=b1", names=("DNS:new",))
    half = wider._replace(pem=wider.certificate)
    expired = changing.authority.issue(
        "expired", subject="/CN=b1", names=("DNS:b1", "DNS:old"), days=-1
    )
    with caplog.at_level(logging.INFO):
        changing.look()
        assert caplog.messages == []
        for refused in (half, other, fewer):
            changing.replace(refused)
            changing.look()
            changing.look()
            assert changing.shown == old
        changing.replace(expired)
        changing.look()
        changing.replace(wider)
        changing.look()

    stays = (
        "the TLS of listener OUTSIDE stays as it is: listener.name.outside.ssl.keystore.location"
    )
    no_key, other_name, fewer_names, warned, *renewed = caplog.messages
    assert no_key.startswith(stays)
    assert "0 of -----BEGIN PRIVATE KEY-----" in no_key
    assert other_name == (
        f"{stays}: the new certificate is of CN=b2, the one in force of CN=b1: "
        "restart the broker, which takes it; ssl.allow.dn.changes=true would allow that"
    )
    assert "lacks the names DNS:b1, DNS:old of the one in force: make it for these" in fewer_names
    assert "the certificate has expired at" in warned
    assert [each[:58] for each in renewed] == [
        "listener OUTSIDE has new keys: the certificate of CN=b1, v"
    ] * 2
    assert changing.shown == ("CN=b1", frozenset({"DNS:b1", "DNS:old", "DNS:new"}))
    changing.tls.stop()
    assert changing.clock.armed() == 0


def test_settings_are_checked_before_they_are_taken_over(changing: Changing) -> None:
    other = changing.authority.issue("other", subject="/CN=b2", names=("DNS:b1",))
    location = {f"{PREFIX}ssl.keystore.location": str(other.pem)}
    with pytest.raises(ConfigError, match=r"ssl\.allow\.dn\.changes=true"):
        changing.tls.check(changing.config(**location))
    with pytest.raises(ConfigError, match="No such file"):
        changing.tls.check(changing.config(**{f"{PREFIX}ssl.keystore.location": "/no.pem"}))
    free = {"ssl.allow.dn.changes": "true", "ssl.allow.san.changes": "true"}
    config = changing.config(**location, **free)

    changing.tls.check(config)
    assert changing.shown[0] == "CN=b1"
    changing.tls.take(config)
    assert changing.shown == ("CN=b2", frozenset({"DNS:b1"}))
    changing.tls.stop()
