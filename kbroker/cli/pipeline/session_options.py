"""Options of all jobs that run on Spark: where, with which settings and jars, and how loud."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import click
from click.core import ParameterSource

from kbroker.cli.arguments.connection import CommandError, security_options
from kbroker.cli.pipeline.config_file import config_option
from kbroker.cli.pipeline.parameters import pair
from kbroker.cli.shown.output import options, output_option, say
from kbroker.errors import Trouble
from kbroker.pipeline.errors import OptionsError, PipelineError
from kbroker.pipeline.spark_job.session import SessionSettings

CommandT = TypeVar("CommandT", bound=Callable[..., Any])
_EXTRA = ("jinja2", "matplotlib", "msgspec", "numpy", "pandas", "pyarrow", "pyspark")
_NAMES = ("master", "jars", "verbose")


def job_options(command: CommandT) -> CommandT:
    """Logins, output, `--config` and session, for jobs that may do without Spark."""
    return security_options(output_option(config_option(session_options(command))))


def session_options(command: CommandT) -> CommandT:
    """Let the command get `spark: SessionSettings`, chosen ones if the call has a `--master`."""

    @functools.wraps(command)
    def call(*args: Any, **values: Any) -> Any:
        chosen_by = click.get_current_context().get_parameter_source("master")
        spark = SessionSettings(
            conf=dict(values.pop("spark_conf")),
            is_chosen=chosen_by not in (ParameterSource.DEFAULT, None),
            **{name: values.pop(name) for name in _NAMES},
        )
        with pipeline_errors(spark.verbose):
            return command(*args, spark=spark, **values)

    return options(*_OPTIONS)(cast(CommandT, call))


@contextmanager
def pipeline_errors(verbose: bool = False) -> Iterator[None]:
    """Turn a PipelineError, or a missing package of the extra, into a sentence with an exit code;
    `verbose` shows what led to it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        if package not in _EXTRA:
            raise
        sentence = f"{package} is not installed: pip install 'kbroker[spark]'"
        raise CommandError(sentence, trouble=Trouble.SPARK) from error
    except OptionsError as error:
        raise click.UsageError(error.sentence) from error
    except PipelineError as error:
        if verbose:
            say("".join(traceback.format_exception(error)).rstrip())
        raise CommandError(error.sentence, error.code, error.trouble) from error


_OPTIONS = (
    click.option(
        "--master", default="local[*]", show_default=True, metavar="URL",
        help="Where Spark runs: local[N], or the address of a cluster that has kbroker installed.",
    ),
    click.option(
        "--spark-conf", type=pair, multiple=True, metavar="KEY=VALUE",
        help="A setting of Spark, such as spark.driver.memory=4g. May be repeated.",
    ),
    click.option(
        "--jars", multiple=True, metavar="PATH",
        help="A jar, or a folder of jars: Spark's Kafka connector, for machines that reach no "
        "registry. May be repeated.",
    ),
    click.option("--verbose", is_flag=True, help="Show everything that Java, Ivy and Spark print."),
)  # fmt: skip
