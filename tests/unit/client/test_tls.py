"""Contexts out of PEM files and texts, and OpenSSL's errors as sentences."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from kbroker.client.client_error import ClientError
from kbroker.client.connection_settings import Tls
from kbroker.client.exit_code import ExitCode
from kbroker.client.tls import tls_context, tls_reason


@pytest.fixture(scope="module")
def pems(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with certificate.pem and its key.pem, which has the password `p`."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl makes the certificate")
    folder = tmp_path_factory.mktemp("pems")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-passout", "pass:p", "-subj", "/CN=ours", "-keyout", "key.pem",
         "-out", "certificate.pem"],
        check=True, capture_output=True, cwd=folder,
    )  # fmt: skip
    return folder


def test_certificates_and_keys_are_taken_from_files_and_texts(pems: Path) -> None:
    certificate, key = pems / "certificate.pem", pems / "key.pem"
    by_file = Tls(
        ca_file=str(certificate),
        certificate_file=str(certificate),
        key_file=str(key),
        key_password="p",
    )
    by_text = Tls(
        ca_text=certificate.read_text(),
        certificate_text=certificate.read_text(),
        key_text=key.read_text(),
        key_password="p",
    )

    for tls in (by_file, by_text):
        assert tls_context(tls).cert_store_stats()["x509"] == 1
        assert tls_context(tls).check_hostname


def test_checks_are_switched_off_one_by_one() -> None:
    no_name = tls_context(Tls(checks_host_name=False))
    no_check = tls_context(Tls(checks_host_name=False, checks_certificate=False))

    assert (no_name.check_hostname, no_name.verify_mode) == (False, ssl.CERT_REQUIRED)
    assert no_check.verify_mode == ssl.CERT_NONE


def test_files_that_cannot_be_used_are_named(pems: Path) -> None:
    certificate, key = str(pems / "certificate.pem"), str(pems / "key.pem")
    refused = {
        Tls(ca_file="/missing.pem"): "the trusted certificates of /missing.pem .*: No such file",
        Tls(ca_file=key): f"the trusted certificates of {key} cannot be used: they are not PEM",
        Tls(ca_text="x"): "the trusted certificates cannot be used",
        Tls(certificate_file=certificate, key_file=key, key_password="wrong"): (
            f"certificate and its key of {certificate} and {key} .* ssl.key.password is wrong"
        ),
        Tls(certificate_file=certificate, key_file=key): "ssl.key.password is wrong",
    }
    for tls, reason in refused.items():
        with pytest.raises(ClientError, match=reason) as error:
            tls_context(tls)
        assert error.value.code is ExitCode.USAGE


def certificate_error(code: int, message: str) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, message)
    error.verify_code, error.verify_message = code, message
    return error


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (18, r"signed by nobody trusted here \(said\): give .* ssl.ca.location=FILE"),
        (20, "signed by nobody trusted here"),
        (62, "not made for the name broker-1: connect by a name that it holds, or switch"),
        (64, "not made for the name broker-1"),
        (10, r"out of date \(said\): renew it, or set the clock"),
        (23, r"certificate is refused \(said\)"),
    ],
)
def test_a_certificate_that_is_not_accepted_comes_with_advice(code: int, advice: str) -> None:
    reason = tls_reason(certificate_error(code, "said."), "broker-1", Tls())

    assert reason is not None
    with pytest.raises(AssertionError, match=advice):
        raise AssertionError(reason)


def test_a_certificate_that_was_not_shown_is_asked_for() -> None:
    error = ssl.SSLError(1, "said")
    error.reason = "SSLV3_ALERT_BAD_CERTIFICATE"  # as Java says it

    asked = tls_reason(error, "h", Tls())
    refused = tls_reason(error, "h", Tls(certificate_file="ann.pem"))

    assert str(asked).startswith("the broker asks for the client's certificate (")
    assert str(refused).startswith("the broker does not trust the client's certificate (")


def test_other_errors_are_of_another_kind() -> None:
    assert tls_reason(ConnectionResetError("cut"), "h", Tls()) is None
    assert tls_reason(ssl.SSLEOFError(8, "EOF"), "h", Tls()) is None
