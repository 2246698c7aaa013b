"""From a certificate to the name of a user: the answers of Java and of Apache Kafka."""

from __future__ import annotations

from ssl import PEM_cert_to_DER_cert

import pytest

from kbroker.config.distinguished_name import printed_name
from kbroker.config.principal_rules import NoRuleError, parse_principal_rules
from kbroker.errors import ConfigError
from kbroker.tls.certificate import subject_name
from tests.source_trees import ROOT

GOLDEN = ROOT / "tests" / "golden" / "config"
# Of P-256, made by OpenSSL: CN=b1, OU=R+D, O="Acme, Inc.", C=DE.
CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBzjCCAXWgAwIBAgIUcHT/5dh+lvdR6lbWh83c7lI5s7owCgYIKoZIzj0EAwIw
PTELMAkGA1UEBhMCREUxEzARBgNVBAoMCkFjbWUsIEluYy4xDDAKBgNVBAsMA1Ir
RDELMAkGA1UEAwwCYjEwHhcNMjYxMTMwMDc1MDA4WhcNMzYxMTI3MDc1MDA4WjA9
MQswCQYDVQQGEwJERTETMBEGA1UECgwKQWNtZSwgSW5jLjEMMAoGA1UECwwDUitE
MQswCQYDVQQDDAJiMTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABAAwvNQVe/KR
yDE5h/jSixMJqXhsj7goYMHgDpoNb+RdgetYmEUevgMzb2ej3bDYO9xNa6xw7XPt
+iy/dcgMFsmjUzBRMB0GA1UdDgQWBBTz3s/x9U3FcSOT+Okeqlp8Bwd3ZjAfBgNV
HSMEGDAWgBTz3s/x9U3FcSOT+Okeqlp8Bwd3ZjAPBgNVHRMBAf8EBTADAQH/MAoG
CCqGSM49BAMCA0cAMEQCIBKdXqfFrBrXrf3cYrfsnopDiM6cTXLdRHwNtjiPmuIw
AiATlrDtQ+OhM2SmrX2Re0LVe1nQLDKd637sdDegdXVl6w==
-----END CERTIFICATE-----
"""


def rows_of(name: str) -> list[list[str]]:
    text = (GOLDEN / name).read_text(encoding="utf-8")
    return [line.split("\t") for line in text.removesuffix("\n").split("\n")]


def test_names_are_printed_as_java_prints_them() -> None:
    for name, printed in rows_of("distinguished-names.tsv"):
        assert printed_name(bytes.fromhex(name)) == printed


def test_the_subject_of_a_certificate_is_its_name() -> None:
    certificate = PEM_cert_to_DER_cert(CERTIFICATE)
    assert subject_name(certificate) == r"CN=b1,OU=R\+D,O=Acme\, Inc.,C=DE"


def test_bytes_that_are_no_certificate_are_refused_wherever_they_end() -> None:
    certificate = PEM_cert_to_DER_cert(CERTIFICATE)
    broken = [certificate[:end] for end in range(len(certificate))]
    broken += [certificate + b"\0", b"0\x00", b"0\x020\x00", b"0\x85\x00\x00\x00\x00\x01\x00"]
    for each in broken:
        with pytest.raises(ValueError, match=r"element|certificate|bytes"):
            subject_name(each)
    for name in ("310130", "30023100ff", "3004310230 00", "300b31093007060155040a0c00"):
        try:  # any name or refusal, but nothing else
            printed_name(bytes.fromhex(name))
        except ValueError:
            continue


def test_rules_give_the_names_that_kafka_gives() -> None:
    for rules, name, kafkas in rows_of("principal-rules-3.9.2.tsv"):
        try:
            ours = f"name {parse_principal_rules(rules).user_name(name)}"
        except (ConfigError, NoRuleError):
            ours = "refused"
        assert ours == (kafkas if kafkas.startswith("name ") else "refused"), (rules, name)


@pytest.mark.parametrize("pattern", [r"[a-z&&[^b]]+", r"\p{L}+", r"\x{41}", r"\N", r"a(?i)b"])
def test_a_pattern_that_python_reads_in_another_way_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigError, match="cannot be used"):
        parse_principal_rules(f"RULE:{pattern}/x/")
