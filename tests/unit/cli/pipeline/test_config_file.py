"""A TOML file gives values to options; what no job knows is refused with the nearest name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from kbroker.cli.arguments.time_argument import duration
from kbroker.cli.pipeline.config_file import config_option
from kbroker.cli.pipeline.parameters import names, pair


@click.group()
def group() -> None:
    pass


@group.command()
@config_option
@click.option("--topics", type=names)
@click.option("--every", type=duration)
@click.option("--batch-records", type=int, default=5)
@click.option("--spark-conf", type=pair, multiple=True)
@click.option("--once", is_flag=True)
@click.option("--bootstrap", envvar="TEST_BOOTSTRAP")
def archive(**values: Any) -> None:
    click.echo(repr(sorted(values.items())))


@group.command()
@config_option
@click.option("--bootstrap")
@click.option("--window")
def lag(**values: Any) -> None:
    click.echo(repr(sorted(values.items())))


def run(tmp_path: Path, text: str, *arguments: str, job: str = "archive") -> Result:
    path = tmp_path / "jobs.toml"
    path.write_text(text)
    return CliRunner().invoke(group, [job, "--config", str(path), *arguments])


def values(tmp_path: Path, text: str, *arguments: str, job: str = "archive") -> dict[str, Any]:
    result = run(tmp_path, text, *arguments, job=job)
    assert result.exit_code == 0, result.output
    return dict(eval(result.output))


ALL = """
bootstrap = "h:1"
spark-conf = { "spark.driver.memory" = "4g", "spark.ui.enabled" = true }

[archive]
topics = ["a", "b"]
every = "5m"
batch-records = 7
once = true

[lag]
window = "1h"
"""


def test_the_top_level_and_the_table_of_the_job_give_values(tmp_path: Path) -> None:
    assert values(tmp_path, ALL) == {
        "bootstrap": "h:1",
        "spark_conf": (("spark.driver.memory", "4g"), ("spark.ui.enabled", "true")),
        "topics": ("a", "b"),
        "every": 300.0,
        "batch_records": 7,
        "once": True,
    }
    assert values(tmp_path, ALL, job="lag") == {"bootstrap": "h:1", "window": "1h"}


def test_the_command_line_wins_and_the_table_wins_over_the_top_level(tmp_path: Path) -> None:
    text = 'bootstrap = "h:1"\nbatch-records = 6\n[archive]\nbootstrap = "h:2"\n'

    found = values(tmp_path, text, "--batch-records", "9")

    assert (found["bootstrap"], found["batch_records"]) == ("h:2", 9)


def test_the_environment_wins_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_BOOTSTRAP", "h:9")

    assert values(tmp_path, 'bootstrap = "h:1"')["bootstrap"] == "h:9"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[archive]\ntopcs = 3", "[archive]: no option is called topcs, did you mean topics?"),
        ("[archive]\nbatch_records = 3", "did you mean batch-records?"),
        ("[archve]\nevery = '1s'", "no option is called archve, did you mean archive?"),
        ("windw = 3", "no option is called windw, did you mean window?"),
        ("[archive]\nwindow = '1h'", "[archive]: no option is called window"),
        ("[lag]\nwindw = '1h'", "[lag]: no option is called windw, did you mean window?"),
        ("lag = 3", "lag is a job: write its values below [lag]"),
        ("[archive]\nonce = 'yes'", "once is 'yes', give true or false"),
        ("[archive]\nevery = true", "every is true, the option takes a value"),
        ("[archive]\nevery = 'soon'", "'soon' is not a duration"),
        ("[archive]\nbatch-records = 'many'", "'many' is not a valid integer"),
        ("[archive.topics]\na = 1", "topics is a table, the option takes a value"),
        ("archive = [", "is not TOML"),
    ],
)
def test_what_is_wrong_in_the_file_is_told(tmp_path: Path, text: str, said: str) -> None:
    result = run(tmp_path, text)

    assert result.exit_code == 2
    assert said in " ".join(result.output.split())


def test_a_file_that_is_not_there_is_told() -> None:
    result = CliRunner().invoke(group, ["archive", "--config", "/no/such/file.toml"])

    assert result.exit_code == 2
    assert "does not exist" in result.output
