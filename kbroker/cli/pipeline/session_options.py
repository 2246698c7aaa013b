"""Options of every job that runs on Spark: where, with which settings and jars, and how loud."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import click

from kbroker.cli.arguments.connection import CommandError
from kbroker.cli.pipeline.parameters import pair
from kbroker.cli.shown.output import say
from kbroker.errors import Trouble
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.spark_job.kafka_connector import untested
from kbroker.pipeline.spark_job.session import SessionSettings

CommandT = TypeVar("CommandT", bound=Callable[..., Any])
_EXTRA = ("jinja2", "matplotlib", "numpy", "pandas", "pyarrow", "pyspark")
_NAMES = ("master", "spark_conf", "jars", "verbose")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """What was given, by option."""

    master: str
    spark_conf: tuple[tuple[str, str], ...]
    jars: tuple[str, ...]
    verbose: bool

    def settings(self, app_name: str, needs_connector: bool) -> SessionSettings:
        """For `open_session`; says on standard error where that pyspark is not tested."""
        from importlib.metadata import PackageNotFoundError, version  # 10 ms that help does not pay

        with suppress(PackageNotFoundError):  # `open_session` says what to install
            if sentence := untested(version("pyspark")):
                say(f"warning: {sentence}")
        return SessionSettings(
            master=self.master,
            app_name=app_name,
            needs_connector=needs_connector,
            jars=self.jars,
            conf=dict(self.spark_conf),
            verbose=self.verbose,
        )


def session_options(command: CommandT) -> CommandT:
    """Adds the options; the command gets them as `session: SessionOptions`."""

    @functools.wraps(command)
    def call(*args: Any, **values: Any) -> Any:
        session = SessionOptions(**{name: values.pop(name) for name in _NAMES})
        with pipeline_errors(session.verbose):
            return command(*args, session=session, **values)

    decorated: Any = call
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return cast(CommandT, decorated)


@contextmanager
def pipeline_errors(verbose: bool = False) -> Iterator[None]:
    """A PipelineError as one sentence with its exit code; with `verbose` all that led to it.

    So is a package of the extra that is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        if package not in _EXTRA:
            raise
        sentence = f"{package} is not installed: pip install 'kbroker[spark]'"
        raise CommandError(sentence, trouble=Trouble.SPARK) from error
    except PipelineError as error:
        if verbose:
            say("".join(traceback.format_exception(error)).rstrip())
        raise CommandError(error.sentence, error.code, error.trouble) from error


_OPTIONS = (
    click.option(
        "--master",
        default="local[*]",
        show_default=True,
        metavar="URL",
        help="Where Spark runs: local[N], or the address of a cluster that has kbroker installed.",
    ),
    click.option(
        "--spark-conf",
        type=pair,
        multiple=True,
        metavar="KEY=VALUE",
        help="A setting of Spark, such as spark.driver.memory=4g. May be repeated.",
    ),
    click.option(
        "--jars",
        multiple=True,
        metavar="PATH",
        help="A jar, or a folder of jars: Spark's Kafka connector, for machines that reach no "
        "registry. May be repeated.",
    ),
    click.option("--verbose", is_flag=True, help="Show everything that Java, Ivy and Spark print."),
)
