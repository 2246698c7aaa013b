"""`kbroker metrics`: what Prometheus and Grafana need to watch brokers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from urllib.parse import SplitResult, urlsplit

import click

from kbroker.cli.broker.http_address import DEFAULT_URL
from kbroker.cli.lazy_commands import CommandGroup

_JOB = "kbroker"
_PATHS = ("", "/", "/metrics")
_job_option = click.option(
    "--job",
    default=_JOB,
    show_default=True,
    metavar="NAME",
    help="Name of the job that scrapes the brokers.",
)


@click.group(cls=CommandGroup)
def metrics() -> None:
    """Print what Prometheus and Grafana need to watch brokers."""


@metrics.command()
def grafana() -> None:
    """Print a board for Grafana, to be imported there.

    Its data source is a Prometheus that scrapes the brokers' /metrics, see `kbroker metrics
    prometheus`. Cluster, brokers, topics and groups can be chosen on it.
    """
    from kbroker.cli.metrics.board import board

    click.echo(json.dumps(board(), indent=2))


@metrics.command()
@_job_option
def alerts(job: str) -> None:
    """Print alerting rules for Prometheus.

    They watch brokers, partitions, disks, requests, groups and transactions. Each says what has
    happened, and what to look at.
    """
    from kbroker.cli.metrics.alert_rules import ALERTS, text_of

    click.echo(text_of(ALERTS, job), nl=False)


@metrics.command()
@click.option(
    "--url",
    "urls",
    multiple=True,
    default=(DEFAULT_URL,),
    show_default=True,
    metavar="http://HOST:PORT",
    help="HTTP address of a broker (kbroker.http.listeners); may be repeated.",
)
@click.option(
    "--token-file",
    metavar="PATH",
    help="File with the token of these addresses (kbroker.http.token.file), on the machine of "
    "Prometheus.",
)
@click.option(
    "--ca",
    "ca_file",
    metavar="PATH",
    help="File with the authority of their certificates, if it is not a public one, there too.",
)
@_job_option
def prometheus(urls: Sequence[str], token_file: str | None, ca_file: str | None, job: str) -> None:
    """Print a configuration of Prometheus that scrapes brokers.

    It reads the alerting rules from kbroker-alerts.yml beside it: `kbroker metrics alerts` prints
    them.
    """
    from kbroker.cli.metrics.scrape_config import Scraped, text_of

    places = [_place_of(url) for url in urls]
    schemes = {place.scheme for place in places}
    if len(schemes) > 1:
        raise click.BadParameter(
            "a job asks all brokers by http or all by https", param_hint="'--url'"
        )
    is_tls = "https" in schemes
    if ca_file is not None and not is_tls:
        raise click.BadParameter("addresses with http have no certificate", param_hint="'--ca'")
    targets = [place.netloc for place in places]
    scraped = Scraped(job, targets, is_tls, token_file, ca_file)
    click.echo(text_of(scraped), nl=False)


def _place_of(url: str) -> SplitResult:
    place = urlsplit(url if "://" in url else f"http://{url}")
    try:
        is_sound = place.scheme in ("http", "https") and place.hostname and place.port
    except ValueError:
        is_sound = False
    if not is_sound or place.path not in _PATHS or place.query or "@" in place.netloc:
        raise click.BadParameter(f"'{url}' is not http://HOST:PORT", param_hint="'--url'")
    return place
