"""`--config FILE.toml`: every option of a job as a key, with the dashes of the option.

Keys of the top level are for all jobs, those of a table for the job of that name:

    bootstrap = "127.0.0.1:9092"
    spark-conf = { "spark.driver.memory" = "4g" }

    [archive]
    topics = ["orders", "payments"]
    checkpoint = "/var/lib/kbroker/archive"

The command line wins, then the environment, then the job's table, then the top level. A key that no
job knows is refused: a misspelt one would have no effect, and nobody would notice.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from kbroker.near_names import did_you_mean

CommandT = TypeVar("CommandT", bound=Callable[..., Any])
_OWN = "config"


def config_option(command: CommandT) -> CommandT:
    """The `--config` option of a job."""
    return click.option(
        "--config",
        type=click.Path(exists=True, dir_okay=False),
        callback=_apply,
        expose_value=False,
        is_eager=True,
        metavar="FILE",
        help="TOML file with options as keys, such as topics = ['a', 'b']: at the top for all "
        "commands, below a name such as [archive] for one.",
    )(command)


def _apply(ctx: click.Context, _: click.Parameter, path: str | None) -> None:
    """Make the file's values the defaults of this run."""
    if path is None:
        return
    content = _read(Path(path))
    jobs = _jobs(ctx)
    ctx.default_map = defaults_of(content, str(ctx.info_name), jobs, path)


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise click.UsageError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{path} is not TOML: {error}") from error


def _jobs(ctx: click.Context) -> dict[str, click.Command]:
    group = ctx.parent.command if ctx.parent is not None else None
    if not isinstance(group, click.Group):
        return {str(ctx.info_name): ctx.command}
    found = {name: group.get_command(ctx, name) for name in group.list_commands(ctx)}
    return {name: command for name, command in found.items() if command is not None}


def defaults_of(
    content: Mapping[str, Any], job: str, jobs: Mapping[str, click.Command], path: str
) -> dict[str, Any]:
    """The default_map of click for a job; raises UsageError for what no job knows."""
    options = {name: _options(command) for name, command in jobs.items()}
    everywhere = {key for known in options.values() for key in known}
    defaults: dict[str, Any] = {}
    for key, value in content.items():
        if isinstance(value, dict) and key in options:
            for inner in value:
                _check_known(inner, options[key], f"{path}, [{key}]")
        else:
            _check_known(key, everywhere | set(options), path)
            if key in options:
                raise click.UsageError(f"{path}: {key} is a job: write its values below [{key}]")
            if key in options[job]:
                option = options[job][key]
                defaults[str(option.name)] = _value(option, value, f"{path}: {key}")
    for key, value in content.get(job, {}).items():
        option = options[job][key]
        defaults[str(option.name)] = _value(option, value, f"{path}, [{job}]: {key}")
    return defaults


def _options(command: click.Command) -> dict[str, click.Option]:
    return {
        name.removeprefix("--"): parameter
        for parameter in command.params
        if isinstance(parameter, click.Option) and parameter.name != _OWN
        for name in parameter.opts
        if name.startswith("--")
    }


def _check_known(key: str, known: Iterable[str], place: str) -> None:
    names = sorted(known)
    if key in names:
        return
    hint = did_you_mean(key.replace("_", "-"), names, shown=1) or f": known are {', '.join(names)}"
    raise click.UsageError(f"{place}: no option is called {key}{hint}")


def _value(option: click.Option, value: Any, place: str) -> Any:
    """As click wants it: a list for an option that may be repeated, else a single value."""
    if option.is_flag:
        if not isinstance(value, bool):
            raise click.UsageError(f"{place} is {value!r}, give true or false")
        return value
    if isinstance(value, bool):
        raise click.UsageError(f"{place} is {str(value).lower()}, the option takes a value")
    if isinstance(value, dict):
        if not option.multiple:
            raise click.UsageError(f"{place} is a table, the option takes a value")
        return [f"{key}={_text(inner)}" for key, inner in value.items()]
    if option.multiple and not isinstance(value, list):
        return [value]
    return value


def _text(value: Any) -> str:
    """Booleans as Spark and Kafka write them."""
    return str(value).lower() if isinstance(value, bool) else str(value)
