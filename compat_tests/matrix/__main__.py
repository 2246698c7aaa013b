"""Scenarios of many clients against a broker: `python -m compat_tests.matrix --start kbroker --out DIR`
writes compat.json, compat.md and compat.html. `make compat` is the same.
"""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

from compat_tests.matrix import targets
from compat_tests.matrix.cells import Cell, Result, save
from compat_tests.matrix.client import Client, clients
from compat_tests.matrix.pages import markdown, page, summary
from compat_tests.matrix.run import run
from compat_tests.matrix.scenarios import SCENARIOS

INTERRUPTED = 130


def main(arguments: list[str] | None = None) -> int:
    """Run it; 1 where a cell failed."""
    options = _options(arguments)
    try:
        return _run(options)
    except KeyboardInterrupt:
        print("Error: interrupted; the topics of this run are deleted", file=sys.stderr)
        return INTERRUPTED


def _run(options: argparse.Namespace) -> int:
    names = options.scenarios or list(SCENARIOS)
    chosen = [each for each in clients() if _is_chosen(each, options.clients)]
    if options.start:
        with targets.started(options.start) as target:
            result = _result(chosen, names, target)
    else:
        try:
            target = targets.at_address(options.target)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            print(
                f"Error: no broker answers at {options.target}: {reason}. Is it running?",
                file=sys.stderr,
            )
            return 1
        result = _result(chosen, names, target)
    options.out.mkdir(parents=True, exist_ok=True)
    save(result, options.out / "compat.json")
    (options.out / "compat.md").write_text(
        f"# {result.target}, {result.day}\n\n{markdown([result])}", encoding="utf-8"
    )
    (options.out / "compat.html").write_text(page([result]), encoding="utf-8")
    print(
        f"{summary(result.cells)}; the table is in {options.out}/compat.html, compat.md and compat.json"
    )
    return 1 if result.failed else 0


def _address(text: str) -> str:
    """HOST:PORT, as the clients of all languages take it."""
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdecimal()):
        raise argparse.ArgumentTypeError(f"'{text}' is not HOST:PORT")
    return text


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m compat_tests.matrix", description=__doc__)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument(
        "--target", type=_address, metavar="HOST:PORT", help="a broker that runs already"
    )
    where.add_argument("--start", choices=targets.STARTS, help="a broker to start")
    known = sorted({each.name for each in clients()})
    parser.add_argument("--clients", nargs="+", metavar="CLIENT", help=", ".join(known))
    parser.add_argument(
        "--scenarios", nargs="+", metavar="SCENARIO", choices=SCENARIOS, help=", ".join(SCENARIOS)
    )
    parser.add_argument("--out", type=Path, default=Path("build/compat"), metavar="DIR")
    options = parser.parse_args(arguments)
    for name in options.clients or []:
        if not any(_is_chosen(each, [name]) for each in clients()):
            parser.error(f"there is no client {name}: choose from {', '.join(known)}")
    return options


def _is_chosen(client: Client, names: list[str] | None) -> bool:
    """`java` are all its versions, `java 2.8.2` is one."""
    return not names or client.name in names or client.title in names


def _result(chosen: list[Client], names: list[str], target: targets.Target) -> Result:
    return Result(
        target=target.name,
        day=datetime.now(UTC).date().isoformat(),
        scenarios={name: (SCENARIOS[name].__doc__ or "").strip() for name in names},
        cells=run(chosen, names, target, _tell),
    )


def _tell(cell: Cell) -> None:
    reason = f": {cell.reason}" if cell.reason else ""
    print(
        f"{cell.client} {cell.version} {cell.scenario}: {cell.state} ({cell.seconds} s){reason}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
