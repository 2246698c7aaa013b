"""What an authority signs is accepted by the strictest reader, and read back as it was meant."""

from __future__ import annotations

import errno
import os
import ssl
import stat
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding

from kbroker.certificates.authority import Authority
from kbroker.certificates.certificate_directory import (
    CertificateDirectory,
    CertificateDirectoryError,
    make_certificates,
)
from kbroker.certificates.certificate_files import (
    certificates_of,
    names_of,
    pem_in,
    principal_of,
)
from kbroker.config.properties_file import parse_properties
from kbroker.tls.certificate import parse_certificate

NOW = datetime.now(UTC)
STRICT = ssl.VERIFY_X509_STRICT | ssl.VERIFY_DEFAULT


def made(
    path: Path,
    *clients: str,
    hosts: tuple[str, ...] = (),
    machine: str = "machine",
    days: int = 90,
    renews: bool = False,
) -> list[str]:
    return make_certificates(
        CertificateDirectory(str(path), renews=renews),
        hosts=hosts,
        machine=machine,
        clients=clients,
        now=NOW,
        days=days,
    )


def context(path: Path, role: int, file: str) -> ssl.SSLContext:
    found = ssl.SSLContext(role)
    found.verify_flags |= STRICT
    found.verify_mode = ssl.CERT_REQUIRED
    found.load_verify_locations(path / "ca.pem")
    found.load_cert_chain(path / file)
    return found


def handshake(path: Path, host: str) -> ssl.SSLObject:
    """The broker's end of a handshake with ann, who called it `host`."""
    to_broker, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    broker = context(path, ssl.PROTOCOL_TLS_SERVER, "broker.pem").wrap_bio(
        to_broker, to_client, server_side=True
    )
    client = context(path, ssl.PROTOCOL_TLS_CLIENT, "ann.pem").wrap_bio(
        to_client, to_broker, server_hostname=host
    )
    for end in (client, broker, client):
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue
    broker.do_handshake()
    return broker


def test_both_ends_accept_what_was_signed_for_them(tmp_path: Path) -> None:
    assert made(tmp_path / "d", "ann", hosts=("*.example.org", "10.0.0.7")) == [
        "ca.pem", "ca.key", "broker.pem", "ann.pem", "ann.properties",
    ]  # fmt: skip
    for host in ("b1.example.org", "10.0.0.7", "machine", "localhost", "127.0.0.1", "::1"):
        presented = handshake(tmp_path / "d", host).getpeercert(binary_form=True)
        assert principal_of(parse_certificate(presented or b"")) == "User:CN=ann"
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(tmp_path / "d", "elsewhere")

    modes = {file.name: file.stat().st_mode & 0o777 for file in (tmp_path / "d").iterdir()}
    assert modes.pop("ca.pem") == 0o644
    assert set(modes.values()) == {0o600}


def test_more_is_added_and_nothing_is_replaced(tmp_path: Path) -> None:
    made(tmp_path, "ann", hosts=("b1",))
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}

    assert made(tmp_path, "bob", hosts=("b1",), machine="renamed") == ["bob.pem", "bob.properties"]
    assert made(tmp_path) == []

    for refused, clients, hosts in (
        ("ann.pem is there already", ("carl", "ann"), ()),
        (r"broker.pem is not for b2: .* --host b2 --renew", ("carl",), ("b1", "b2")),
        ("ca.pem is not a client's", ("ca",), ()),
        ("'../x' does not name a client", ("../x",), ()),
        ("'a b' is neither a host name nor", (), ("a b",)),
        ("'10.0.0.256' is neither a host", (), ("10.0.0.256",)),
    ):
        with pytest.raises(CertificateDirectoryError, match=refused):
            made(tmp_path, *clients, hosts=hosts)
    with pytest.raises(CertificateDirectoryError, match="what it signs cannot last longer"):
        made(tmp_path, "carl", days=3651)
    after = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert before.items() <= after.items()
    assert len(after) == len(before) + 2


def test_what_is_renewed_is_for_all_that_it_was_for(tmp_path: Path) -> None:
    made(tmp_path, "ann", hosts=("b1",))
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}

    assert made(tmp_path, hosts=("b2",), machine="elsewhere", renews=True) == ["broker.pem"]
    names = CertificateDirectory(str(tmp_path)).names_of_broker()
    assert set(names) == {"b1", "b2", "machine", "localhost", "127.0.0.1", "::1"}
    assert made(tmp_path, "ann", renews=True) == ["ann.pem", "ann.properties"]
    assert handshake(tmp_path, "b2").getpeercert(binary_form=True)

    after = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert {name for name in after if after[name] == before[name]} == {"ca.pem", "ca.key"}
    assert (tmp_path / "broker.pem").stat().st_mode & 0o777 == 0o600


def test_a_directory_that_is_half_or_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(CertificateDirectoryError, match=r"has notes.txt, but no ca.pem: choose"):
        made(tmp_path)

    one, other = tmp_path / "one", tmp_path / "other"
    made(one)
    made(other)
    (one / "ca.key").write_bytes((other / "ca.key").read_bytes())
    with pytest.raises(CertificateDirectoryError, match="its key is not that of its certificate"):
        made(one, "ann")
    (one / "ca.key").write_text("nonsense")
    with pytest.raises(CertificateDirectoryError, match=r"the authority in .* cannot be used"):
        made(one, "ann")
    (one / "ca.key").unlink()
    with pytest.raises(CertificateDirectoryError, match=r"has ca.pem, but no ca.key"):
        made(one, "ann")
    (other / "ca.pem").unlink()
    with pytest.raises(CertificateDirectoryError, match=r"has broker.pem, but no ca.pem"):
        made(other)
    (tmp_path / "file").write_text("")
    with pytest.raises(CertificateDirectoryError, match="file"):
        made(tmp_path / "file" / "d")


def test_a_full_disk_is_said_of_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(CertificateDirectoryError, match=r"/d: No space left on device"):
        made(tmp_path / "d")
    monkeypatch.undo()
    assert made(tmp_path / "d") == ["ca.pem", "ca.key", "broker.pem"]  # nothing half was left


@pytest.mark.parametrize("renames", range(3))
def test_what_a_killed_process_has_begun_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renames: int
) -> None:
    left = iter(range(renames))
    really = os.rename

    def killed(source: str, target: str) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt
        really(source, target)

    monkeypatch.setattr("os.rename", killed)
    with pytest.raises(KeyboardInterrupt):
        made(tmp_path / "d", "ann")
    monkeypatch.undo()
    before = {file.name: file.read_bytes() for file in (tmp_path / "d").glob("[!.]*")}

    assert len(before) == renames
    assert {*before, *made(tmp_path / "d", "ann")} == {
        "ca.pem", "ca.key", "broker.pem", "ann.pem", "ann.properties",
    }  # fmt: skip
    assert (
        before.items()
        <= {file.name: file.read_bytes() for file in (tmp_path / "d").glob("[!.]*")}.items()
    )
    assert handshake(tmp_path / "d", "localhost").getpeercert(binary_form=True)


def test_what_all_users_may_read_or_write_is_not_used(tmp_path: Path) -> None:
    made(tmp_path / "d", "ann")
    for file, mode, refusal in (
        ("ca.key", 0o644, r"may read the secret in .*ca.key: `chmod o-r .*ca.key` ends that"),
        ("broker.pem", 0o604, r"may read .*broker.pem"),
        ("ca.pem", 0o646, r"may write to .*ca.pem: `chmod o-w .*ca.pem` ends that"),
        (".", 0o757, r"may write to .*/d: `chmod o-w .*/d` ends that"),
    ):
        before = (tmp_path / "d" / file).stat().st_mode
        (tmp_path / "d" / file).chmod(mode)
        with pytest.raises(CertificateDirectoryError, match=refusal):
            made(tmp_path / "d", "bob")
        (tmp_path / "d" / file).chmod(before)
    (tmp_path / "all").mkdir()
    (tmp_path / "all").chmod(0o777)
    with pytest.raises(CertificateDirectoryError, match=r"may write to .*/all"):
        made(tmp_path / "all")
    assert list((tmp_path / "all").iterdir()) == []


def test_a_secret_goes_to_no_file_of_another(tmp_path: Path) -> None:
    directory, elsewhere = CertificateDirectory(str(tmp_path / "d")), tmp_path / "elsewhere"
    (tmp_path / "d").mkdir()
    elsewhere.write_text("as it was")
    (tmp_path / "d" / ".a.pem.new").symlink_to(elsewhere)
    (tmp_path / "d" / ".b.pem.new").touch(0o644)

    directory.write("a.pem", "a secret", is_secret=True)
    directory.write("b.pem", "a secret", is_secret=True)

    assert elsewhere.read_text() == "as it was"
    for name in ("a.pem", "b.pem"):
        status = (tmp_path / "d" / name).lstat()
        assert (stat.S_ISREG(status.st_mode), status.st_mode & 0o777) == (True, 0o600)


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
def test_what_another_user_has_put_there_is_not_used(tmp_path: Path) -> None:
    made(tmp_path)
    os.chown(tmp_path / "ca.key", 12_345, -1)
    with pytest.raises(CertificateDirectoryError, match=r"ca.key belongs to another user"):
        made(tmp_path, "ann")
    os.chown(tmp_path, 12_345, -1)
    assert "ann.pem" in made(tmp_path, "ann")  # the directory is that user's


def test_properties_of_a_client_have_all_that_it_needs(tmp_path: Path) -> None:
    made(tmp_path, "ann")
    text = (tmp_path / "ann.properties").read_text()
    values = parse_properties(text)

    assert values["security.protocol"] == "SSL"
    assert values["ssl.truststore.type"] == values["ssl.keystore.type"] == "PEM"
    assert f"{values['ssl.truststore.certificates']}\n" == (tmp_path / "ca.pem").read_text()
    assert (tmp_path / "ann.pem").read_text() == (
        f"{values['ssl.keystore.key']}\n{values['ssl.keystore.certificate.chain']}\n"
    )
    own, authority = certificates_of(pem_in(text))
    assert (own.subject, own.issuer) == ("CN=ann", authority.subject)


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        (rsa.generate_private_key(65537, 2048), "RSA 2048"),
        (ec.generate_private_key(ec.SECP384R1()), "EC P-384"),
        (ed25519.Ed25519PrivateKey.generate(), "Ed25519"),
    ],
)
def test_any_certificate_is_read_as_openssl_reads_it(
    key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey, kind: str
) -> None:
    subject = x509.Name.from_rfc4514_string("CN=Jürgen,OU=R\\+D,C=DE")
    begin, end = datetime(1999, 1, 2, 3, 4, 5, tzinfo=UTC), datetime(2051, 1, 1, tzinfo=UTC)
    names = [x509.DNSName("b"), x509.RFC822Name("m@b"), x509.IPAddress(ip_address("::1"))]
    builder = x509.CertificateBuilder(
        subject, subject, key.public_key(), 7, begin, end,
        [x509.Extension(x509.SubjectAlternativeName.oid, False, x509.SubjectAlternativeName(names))],
    )  # fmt: skip
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    der = builder.sign(key, algorithm).public_bytes(Encoding.DER)

    found = parse_certificate(der)

    assert (found.subject, found.issuer) == (r"CN=Jürgen,OU=R\+D,C=DE",) * 2
    assert (found.begins, found.ends) == (begin, end)
    assert found.alternative_names == {"DNS:b", "email:m@b", "IP:::1"}
    assert (names_of(found), found.key_kind, found.is_authority) == (["b", "::1"], kind, False)
    assert found.fault(NOW) is None


def test_bytes_that_are_no_certificate_are_refused_wherever_they_end_or_change() -> None:
    der = ssl.PEM_cert_to_DER_cert(Authority.made(NOW).pem.certificate)
    for end in range(len(der)):
        with pytest.raises(ValueError, match=r"element|certificate|bytes"):
            parse_certificate(der[:end])
    for place in range(len(der)):
        for bit in (0x01, 0x40, 0xFF):
            try:  # another certificate or a refusal, but nothing else
                parse_certificate(der[:place] + bytes([der[place] ^ bit]) + der[place + 1 :])
            except ValueError:
                continue
