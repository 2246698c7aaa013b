"""Whom a fetch of keys or tokens trusts."""

from __future__ import annotations

from pathlib import Path

from kbroker.tokens.web_trust import web_trust
from tests.fakes.certificates import Authority


def test_certificates_of_an_entry_of_jaas_may_stand_in_one_line(tmp_path: Path) -> None:
    pem = Authority(tmp_path).certificate.read_text()

    trust = web_trust({"ssl.truststore.certificates": " ".join(pem.split("\n"))})

    assert trust is not None
    assert len(trust.get_ca_certs()) == 1
    assert trust.check_hostname
    assert web_trust({"clientId": "ann"}) is None
