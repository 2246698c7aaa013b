"""Address and settings out of the options, the environment and a file."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from kbroker.cli.arguments.bootstrap_reading import bootstrap_of_call, other_bootstrap
from kbroker.cli.arguments.connection import bootstrap_option, security_options
from kbroker.client.bootstrap import settings_of
from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import ClusterLinks

FILE = """
security.protocol=SASL_SSL
sasl.mechanism=PLAIN
sasl.username=ann
sasl.password=geheim
bootstrap.servers=file:1
group.id=readers
"""


@click.command()
@click.option("--before")
@bootstrap_option
@click.option("--after")
def command(bootstrap: str, before: str | None, after: str | None) -> None:
    """Prints what it was given."""
    click.echo(f"{bootstrap} {settings_of(bootstrap)} {before} {after}")


@click.command()
@click.option("--data")
@click.option("--bootstrap", envvar="KBROKER_BOOTSTRAP")
@security_options
@click.pass_context
def other(ctx: click.Context, data: str | None, bootstrap: str | None) -> None:
    """Prints the cluster that is wished."""
    click.echo(repr(bootstrap_of_call(ctx, has_other_source=bool(data))))


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "client.properties"
    path.write_text(FILE)
    return str(path)


def run(*arguments: str, of: click.Command = command, **environment: str) -> Result:
    return CliRunner(env=environment).invoke(of, arguments)


def address(*arguments: str, **environment: str) -> str:
    return run(*arguments, **environment).output.partition(" ")[0]


def test_an_address_alone_is_that_of_an_open_cluster() -> None:
    output = run("--bootstrap", "h:1", "--before", "a", "--after", "b").output

    assert output.startswith("h:1 ConnectionSettings(tls=None, login=None")
    assert output.endswith(" a b\n")


def test_an_address_is_taken_from_the_nearest_place(file: str) -> None:
    by_file = ("--command-config", file)
    by_property = (*by_file, "-X", "metadata.broker.list=property:1")

    assert address() == "127.0.0.1:9092"
    assert address(*by_file) == "file:1"
    assert address(KBROKER_COMMAND_CONFIG=file) == "file:1"
    assert address(*by_file, KBROKER_BOOTSTRAP="environment:1") == "environment:1"
    assert address(*by_property, KBROKER_BOOTSTRAP="environment:1") == "property:1"
    assert address("--bootstrap", "option:1", *by_property) == "option:1"


def test_a_property_wins_over_the_file_whatever_its_spelling(file: str) -> None:
    output = run("--command-config", file, "-X", "sasl.mechanisms=SCRAM-SHA-256").output

    assert "Login(mechanism='SCRAM-SHA-256', username='ann', " in output


def test_a_property_about_security_without_effect_is_named(file: str) -> None:
    output = run("--command-config", file, "-X", "ssl.cipher.suites=x").output

    assert output.startswith("ssl.cipher.suites has no effect here\n")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (
            ("-X", "ssl.ca.locaton=x"),
            "-X: unknown property ssl.ca.locaton, did you mean ssl.ca.loc",
        ),
        (("-X", "sasl.password geheim"), "'sasl.password' has no value: give NAME=VALUE"),
        (("-X", "security.protocol=TLS"), "security.protocol=TLS: give one of"),
        (("--command-config", "/nowhere"), "'/nowhere' does not exist"),
    ],
)
def test_what_cannot_be_is_refused_without_secrets(arguments: tuple[str, ...], reason: str) -> None:
    result = run(*arguments)

    assert result.exit_code == 2
    assert reason in result.output
    assert "geheim" not in result.output


def test_a_misspelt_name_of_a_file_comes_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "my.conf"
    path.write_text("sasl.pasword=geheim\n")

    result = run("--command-config", str(path))

    assert f"{path}: unknown property sasl.pasword, did you mean sasl.password?" in result.output
    assert "geheim" not in result.output


def test_a_cluster_of_the_shell_is_no_wish_of_a_command_with_another_source(file: str) -> None:
    shell = {"KBROKER_BOOTSTRAP": "h:1", "KBROKER_COMMAND_CONFIG": file}

    assert run("--data", "d", of=other, **shell).output == "None\n"
    assert run(of=other, **shell).output == "'h:1'\n"
    assert run("--data", "d", "--bootstrap", "h:2", of=other, **shell).output == "'h:2'\n"
    assert run(of=other).output == "None\n"


def test_a_variable_that_names_no_address_is_told_by_its_name() -> None:
    result = run(KBROKER_BOOTSTRAP="nonsense")

    assert result.exit_code == 2
    assert "KBROKER_BOOTSTRAP 'nonsense' is not HOST:PORT" in result.output
    assert address("-X", "bootstrap.servers=h:2", KBROKER_BOOTSTRAP="nonsense") == "h:2"


def test_settings_without_a_cluster_are_refused() -> None:
    result = run("--data", "d", "-X", "client.id=me", of=other)

    assert result.exit_code == 2
    assert "give --bootstrap too" in result.output


def test_another_cluster_has_properties_of_its_own(file: str) -> None:
    open_one = other_bootstrap("h:1", None, "--from")
    named = other_bootstrap("h:1", file, "--from")
    by_file = other_bootstrap(None, file, "--from")

    assert (open_one, open_one.settings.protocol) == ("h:1", "PLAINTEXT")
    assert (named, named.settings.protocol) == ("h:1", "SASL_SSL")
    assert by_file == "file:1"


def test_an_address_is_blamed_on_the_option_that_gave_it() -> None:
    with pytest.raises(ClientError, match=r"^--from 'nowhere' is not HOST:PORT"):
        ClusterLinks(other_bootstrap("nowhere", None, "--from"))
    with pytest.raises(ClientError, match=r"^--bootstrap 'nowhere' is not HOST:PORT"):
        ClusterLinks("nowhere")
    with pytest.raises(ClientError, match=r"^--bootstrap 'http://h:1' is not HOST:PORT"):
        ClusterLinks("http://h:1")


@pytest.mark.parametrize("given", ["h:1,h:2,", "h:1, h:2", " h:1,,h:2"])
def test_nothing_between_commas_is_no_address(given: str) -> None:
    assert address("--bootstrap", given) == "h:1,h:2"


def test_commas_alone_are_refused() -> None:
    with pytest.raises(ClientError, match=r"^--from '' is not HOST:PORT"):
        ClusterLinks(other_bootstrap(",", None, "--from"))


PROVIDED = """
config.providers=env
config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider
security.protocol=SASL_SSL
sasl.mechanism=PLAIN
sasl.username=ann
sasl.password=${env:ANNS_PASSWORD}
"""


def test_values_of_a_file_may_stand_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(PROVIDED)
    monkeypatch.setenv("ANNS_PASSWORD", "geheim")

    login = settings_of(other_bootstrap("a:1", str(file), "--to-bootstrap")).login

    assert login is not None
    assert login.password == "geheim"
    monkeypatch.delenv("ANNS_PASSWORD")
    with pytest.raises(click.UsageError, match=r"ANNS_PASSWORD\} stands for nothing"):
        other_bootstrap("a:1", str(file), "--to-bootstrap")
