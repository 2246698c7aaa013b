"""`kbroker cert`: makes certificates for a broker and its clients, and says what stands in any."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import click

from kbroker.cli.arguments.connection import CommandError, ExitCode
from kbroker.cli.arguments.directory_argument import DirectoryArgument
from kbroker.cli.cert.show import show
from kbroker.cli.lazy_commands import CommandGroup
from kbroker.cli.shown.output import output_option, print_rows, say

_MADE = ("file", "holds", "principal", "days_left")
_DAYS = 730


@click.group(cls=CommandGroup)
def cert() -> None:
    """Make certificates for TLS, and say what stands in one."""


cert.add_command(show)


@cert.command()
@click.argument("directory", type=DirectoryArgument(), metavar="DIR")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="Host name or address by which clients reach a broker, besides localhost and this "
    "machine's name; may be repeated.",
)
@click.option(
    "--client",
    "clients",
    multiple=True,
    metavar="NAME",
    help="Make a certificate for this client too; may be repeated.",
)
@click.option(
    "--days",
    type=click.IntRange(min=1, max=3650),
    default=_DAYS,
    show_default=True,
    metavar="N",
    help="How long the certificates are valid; the authority is for ten years.",
)
@click.option(
    "--renew",
    "renews",
    is_flag=True,
    help="Replace the broker's certificate by one for the same names and those of --host; with "
    "--client the certificates of these clients instead.",
)
@output_option
def make(
    directory: str,
    hosts: Sequence[str],
    clients: Sequence[str],
    days: int,
    renews: bool,
    output: str,
) -> None:
    """Make an authority in DIR, and certificates that it signs: one for brokers, and one for each
    client.

    DIR then has ca.pem, which clients trust; broker.pem, key and certificate for
    ssl.keystore.location; and for each client NAME.pem and NAME.properties, which --command-config
    and Java's clients take. ca.key signs more: call this again with another --client. Without
    --renew no file is replaced. Needs `pip install 'kbroker[security]'`.
    """
    from kbroker.certificates.certificate_directory import (
        CertificateDirectory,
        CertificateDirectoryError,
        make_certificates,
    )
    from kbroker.errors import ConfigError, trouble_of

    place = CertificateDirectory(directory, renews=renews)
    now = datetime.now(UTC)
    try:
        made = make_certificates(
            place,
            hosts=hosts,
            machine=socket.gethostname(),
            clients=clients,
            now=now,
            days=days,
        )
        rows = [_row(place.path_of(file), place.text_of(file), now) for file in made]
    except (CertificateDirectoryError, ConfigError) as error:
        raise CommandError(str(error), ExitCode.USAGE, trouble_of(error)) from error
    print_rows(rows, _MADE, output)
    if not rows:
        say(f"{directory} has all of it already")


def _row(path: str, text: str, now: datetime) -> dict[str, Any]:
    from kbroker.certificates.certificate_files import (
        certificates_of,
        has_key,
        pem_in,
        principal_of,
    )

    pem = pem_in(text)
    row: dict[str, Any] = {"file": path}
    if "CERTIFICATE" not in pem:
        return {**row, "holds": "the authority's key"}
    first = certificates_of(pem)[0]
    holds = "key and certificate" if has_key(pem) else "certificate"
    if path.endswith(".properties"):
        holds = "settings of a client"
    return {
        **row,
        "holds": holds,
        "principal": principal_of(first),
        "days_left": (first.ends - now).days,
    }
