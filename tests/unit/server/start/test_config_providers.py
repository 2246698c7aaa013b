"""Variables in settings are those of Apache Kafka's three providers; what stands for nothing ends the
start, in a sentence without any value.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from kbroker.errors import ConfigError
from kbroker.server.start.config_providers import resolved
from kbroker.server.start.settings_sources import SettingSources, load_settings

CLASSES = "org.apache.kafka.common.config.provider."
DECLARED = {
    "config.providers": "file, dir,env",
    "config.providers.file.class": f"{CLASSES}FileConfigProvider",
    "config.providers.dir.class": f"{CLASSES}DirectoryConfigProvider",
    "config.providers.env.class": f"{CLASSES}EnvVarConfigProvider",
}
ENVIRONMENT = {"THREADS": "3", "SECRET": "hunter2"}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "password").write_text("s3cret\n")
    (tmp_path / "some.properties").write_text("pass\\ word = hunter2\nthreads: 4\nempty=\n")
    (tmp_path / "binary").write_bytes(b"hunter2\xff")
    return tmp_path


def values_of(home: Path, params: Mapping[str, str] | None = None, **values: str) -> dict[str, str]:
    given = {
        name.replace("_", "."): text.replace("HOME", str(home)) for name, text in values.items()
    }
    settings = {f"config.providers.{name}": text for name, text in (params or {}).items()}
    found = resolved(DECLARED | settings | given, ENVIRONMENT)
    return {name: found[name] for name in given}


def test_files_directories_and_the_environment_are_looked_into(home: Path) -> None:
    assert values_of(
        home,
        ssl_key_password="${file:HOME/some.properties:pass word}",
        num_io_threads="1${env:THREADS}",
        broker_rack="a ${file:HOME/some.properties:empty}${env:SECRET} of ${user}",
        ssl_keystore_password="${dir:HOME/secrets:password}",
        ssl_keystore_location="${vault:some/path:key}",
    ) == {
        "ssl.key.password": "hunter2",
        "num.io.threads": "13",
        "broker.rack": "a hunter2 of ${user}",
        "ssl.keystore.password": "s3cret\n",  # trimmed when it is read, as every value
        "ssl.keystore.location": "${vault:some/path:key}",
    }


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("${file:HOME/some.properties:pass}", r"HOME/some.properties has no pass"),
        ("${file:HOME/none:pass}", r"HOME/none cannot be read: there is no such file"),
        ("${file:HOME/secrets:pass}", r"HOME/secrets cannot be read: it is a directory"),
        ("${file:HOME/binary:pass}", r"HOME/binary is not UTF-8"),
        ("${file:pass}", "it has no path"),
        ("${dir:HOME/secrets:none}", r"HOME/secrets/none cannot be read: there is no such file"),
        ("${dir:HOME/secrets:../some.properties}", "is not the name of a file"),
        ("${env:NONE}", "NONE is not set"),
        ("${env:HOME:SECRET}", "has no path"),
    ],
)
def test_a_variable_that_stands_for_nothing_is_named(home: Path, text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        values_of(home, ssl_key_password=text)
    said = str(refusal.value).replace(str(home), "HOME")
    assert said.startswith(f"ssl.key.password: {text} stands for nothing: ")
    assert sentence in said
    assert "hunter2" not in said


def test_a_variable_whose_provider_is_not_declared_is_a_mistake(home: Path) -> None:
    text = "${directory:HOME/secrets:password}"
    with pytest.raises(ConfigError, match=r"config\.providers\.directory\.class=org\.apache"):
        values_of(home, ssl_key_password=text)


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"file.param.allowed.paths": "HOME/secrets"}, "${file:HOME/some.properties:threads}"),
        ({"file.param.allowed.paths": "HOME/sec"}, "${file:HOME/secrets/password:threads}"),
        ({"dir.param.allowed.paths": "HOME/secrets"}, "${dir:HOME/secrets/..:some.properties}"),
        ({"file.param.allowed.paths": "HOME/sec"}, "${file:HOME/sec/link:threads}"),
        ({"dir.param.allowed.paths": "HOME/sec"}, "${dir:HOME/sec:link}"),
        ({"env.param.allowlist.pattern": "THREAD"}, "${env:THREADS}"),
    ],
)
def test_what_is_not_allowed_is_not_read(home: Path, params: dict[str, str], text: str) -> None:
    (home / "sec").mkdir()
    (home / "sec" / "link").symlink_to(home / "some.properties")
    there = {name: value.replace("HOME", str(home)) for name, value in params.items()}
    with pytest.raises(ConfigError, match="does not let"):
        values_of(home, there, num_io_threads=text)


def test_what_is_allowed_is_read(home: Path) -> None:
    (home / "here").symlink_to(home / "secrets")
    (home / "secrets" / "threads").write_text("4")
    through_a_link = {"dir.param.allowed.paths": f"{home}/here"}
    given = "${dir:HOME/here:threads}"
    assert values_of(home, through_a_link, num_io_threads=given) == {"num.io.threads": "4"}
    allowed = {
        "file.param.allowed.paths": f"{home}/secrets,{home}",
        "env.param.allowlist.pattern": "THREAD.*",
    }
    given = "${file:HOME/secrets/../some.properties:threads}${env:THREADS}"
    assert values_of(home, allowed, num_io_threads=given) == {"num.io.threads": "43"}


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"file.class": ""}, "config.providers has file, and config.providers.file.class is not"),
        ({"file.class": "FileConfigProvider"}, "kbroker has org.apache.kafka.common.config"),
        ({"file.param.allowed.paths": "here"}, "file.param.allowed.paths has here, which is not"),
        ({"dir.param.allowed.paths": "/no/such"}, "dir.param.allowed.paths has /no/such"),
        ({"env.param.allowlist.pattern": "("}, "env.param.allowlist.pattern is not a regular"),
    ],
)
def test_half_of_a_provider_is_refused(home: Path, params: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        values_of(home, params, broker_rack="${env:THREADS}")


def test_an_unfit_value_is_not_shown(home: Path) -> None:
    with pytest.raises(ConfigError) as refusal:
        values_of(home, num_io_threads="${env:SECRET}")
    assert str(refusal.value) == (
        "num.io.threads: the value of ${env:SECRET}: Not a number of type INT"
    )


def test_a_start_takes_them_from_files_and_from_variables_of_its_environment(home: Path) -> None:
    loaded = load_settings(
        SettingSources(
            properties={
                "ssl.key.password": f"${{file:{home}/some.properties:pass word}}",
                "config.providers": "file",
                "config.providers.file.class": f"{CLASSES}FileConfigProvider",
            },
            environment={
                "KAFKA_NUM_IO_THREADS": f"${{file:{home}/some.properties:threads}}",
                "KAFKA_CONFIG_PROVIDERS_FILE_PARAM_ALLOWED_PATHS": str(home),
            },
        )
    )
    assert loaded.config.value("num.io.threads") == 4
    assert loaded.config.ssl.ssl_key_password == "hunter2"
    assert not any("config.providers" in line for line in loaded.warnings)
