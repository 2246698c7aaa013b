"""`kbroker config check` and `show`: the settings of a start, read as `kbroker start` reads them,
without any broker.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from kbroker.cli.arguments.connection import CommandError, ExitCode
from kbroker.cli.broker.start import setting_options
from kbroker.cli.shown.output import counted, output_option, print_rows, say

if TYPE_CHECKING:
    from kbroker.config.kafka_config import KafkaConfig

_ERROR, _WARNING = "error", "warning"
_FINDINGS = ("severity", "finding")
_SETTINGS = ("setting", "value", "origin")
_HIDDEN = "(hidden)"


@click.command()
@click.argument("properties", metavar="server.properties")
@click.option("--profile", type=click.Choice(["dev", "prod"]), help="Check it for this profile.")
@click.option("--strict", is_flag=True, help="End with exit code 1 for warnings, too.")
@output_option
def check(properties: str, profile: str | None, strict: bool, output: str) -> None:
    """Read a server.properties without starting a broker.

    An error keeps a broker from starting; disks, ports and ZooKeeper are not looked at. Warnings
    are about unknown names, with the nearest known ones, and about settings that Kafka acts on and
    kbroker does not yet. Exit code 1 when there is an error.
    """
    from kbroker.server.start.launch import UsageError, properties_in

    try:
        values = properties_in(properties)
    except UsageError as error:
        raise CommandError(str(error), ExitCode.USAGE, error.trouble) from error
    findings = findings_in(values, profile)
    print_rows(findings, _FINDINGS, output)
    errors = sum(finding["severity"] == _ERROR for finding in findings)
    warnings = len(findings) - errors
    sentence = (
        f"{properties}: {counted(len(values), 'setting')}, {counted(errors, 'error')}, "
        f"{counted(warnings, 'warning')}"
    )
    if errors or (strict and warnings):
        raise CommandError(sentence, ExitCode.ITEM_FAILED)
    say(sentence)


@click.command(short_help="Print the settings that a start would use.")
@setting_options
@click.option("--all", "shows_all", is_flag=True, help="Show settings that have defaults, too.")
@output_option
def show(
    properties: str | None,
    listen: Sequence[str],
    is_open: bool,
    data: str | None,
    profile: str | None,
    overrides: Sequence[str],
    zookeeper: str | None,
    shows_all: bool,
    output: str,
) -> None:
    """Print the settings that `kbroker start` would use with the same arguments, and where each
    comes from: the default, the profile, the file, the environment or an option.
    """
    from kbroker.server.start.launch import StartOptions, UsageError, settings_for

    options = StartOptions(
        properties=properties,
        profile=profile,
        listen=listen,
        is_open=is_open,
        data=data,
        overrides=overrides,
        zookeeper=zookeeper,
    )
    try:
        settings = settings_for(options, os.environ)
    except UsageError as error:
        raise CommandError(str(error), ExitCode.USAGE, error.trouble) from error
    print_rows(rows_of(settings.config, shows_all=shows_all), _SETTINGS, output)
    for warning in settings.warnings:
        say(f"warning: {warning}")


def findings_in(values: Mapping[str, str], profile: str | None) -> list[dict[str, str]]:
    """Return what a start would refuse or warn about: `severity` and `finding`.

    Each value is first checked by itself, so that one refusal does not hide another.
    """
    from kbroker.config.foreign_settings import PROVIDERS
    from kbroker.config.kafka_config import ORIGIN_FILE, KafkaConfig, key_among
    from kbroker.errors import ConfigError
    from kbroker.server.start.config_providers import resolved
    from kbroker.server.start.settings_sources import SettingSources, load_settings
    from kbroker.server.start.start_refusals import refusals_of, warnings_of

    errors: list[str] = []
    sound: dict[str, str] = {}
    said: list[str] = []
    try:
        values = resolved(values, os.environ)
    except ConfigError as error:
        errors.append(str(error))
        values = {name: text for name, text in values.items() if "${" not in text}
    for name, text in values.items():
        if name.startswith(PROVIDERS):
            continue  # they have done their work
        key = key_among(name, values)
        try:
            if key is not None:
                key.parse(text)
        except ConfigError as error:
            errors.append(str(error))
        else:
            sound[name] = text
    try:
        settings = load_settings(SettingSources(profile=profile, properties=sound))
        errors += map(str, refusals_of(settings.config))
        said += warnings_of(settings.config)
    except ConfigError as error:
        errors.append(str(error))
    warnings = KafkaConfig(sound, dict.fromkeys(sound, ORIGIN_FILE)).warnings()
    return [{"severity": _ERROR, "finding": each} for each in errors] + [
        {"severity": _WARNING, "finding": each} for each in (*warnings, *said)
    ]


def rows_of(config: KafkaConfig, *, shows_all: bool) -> list[dict[str, Any]]:
    """Return a row per setting in force: all, or those that differ from the defaults."""
    from kbroker.config.config_values import to_text
    from kbroker.config.kafka_config import ORIGIN_DEFAULT, ORIGIN_OVERRIDE, config_keys

    rows = []
    for key in sorted(config_keys(), key=lambda key: key.name):
        origin = config.origin(key.name)
        if origin == ORIGIN_DEFAULT and not shows_all:
            continue
        value = to_text(config.value(key.name))
        rows.append(
            {
                "setting": key.name,
                "value": _HIDDEN if key.sensitive and value is not None else value,
                "origin": "option" if origin == ORIGIN_OVERRIDE else origin,
            }
        )
    return rows
