"""Asks two brokers the same raw requests and prints what they answer otherwise, field by field:

    python -m compat_tests.compare --diff A B

A and B are addresses (HOST:PORT), or brokers that are started for it: kbroker, kafka-3.9.2,
kafka-4.3.1. Exit code 0: only accepted differences; 1: others; 2: wrong use; 3: no broker answers.
"""

from __future__ import annotations

import argparse
import re
import signal
import sys
from collections.abc import Generator
from contextlib import ExitStack, closing
from types import FrameType

from compat_tests.clients.raw_connection import ClosedError, SilenceError
from compat_tests.compare.brokers import STARTED, UnusableError, prepared, started
from compat_tests.compare.comparing import KeyResult, compared
from compat_tests.compare.report import as_json, as_text, progress, summary

FINE, DIFFERENT, USAGE, CANNOT_CONNECT, INTERRUPTED = 0, 1, 2, 3, 130


def main() -> int:
    """The exit code."""
    options = _options()
    signal.signal(signal.SIGTERM, _interrupt)
    results: list[KeyResult] = []
    try:
        with closing(_results(*options.diff, options.only)) as found:
            for result in found:
                results.append(result)
                print(progress(result), file=sys.stderr, flush=True)
                if options.output == "text":
                    for line in as_text(result, everything=options.all):
                        print(line, flush=True)
    except UnusableError as error:
        return _said(str(error), USAGE)
    except (OSError, ClosedError, SilenceError) as error:
        names = " and ".join(options.diff)
        return _said(f"cannot compare {names}: {_sentence(error)}", CANNOT_CONNECT)
    except KeyboardInterrupt:
        return _said("interrupted; topics and groups of this run are deleted", INTERRUPTED)
    if not results:
        return _said(
            f"--only '{options.only}' finds none of the keys that they serve, such as Fetch", USAGE
        )
    told = as_json if options.output == "json" else summary
    print(told(*options.diff, results))
    return DIFFERENT if any(result.unexplained for result in results) else FINE


def _options() -> argparse.Namespace:
    kinds = ", ".join(STARTED)
    parser = argparse.ArgumentParser(
        prog="python -m compat_tests.compare", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument(
        "--diff", nargs=2, required=True, metavar=("A", "B"), help=f"HOST:PORT, or one of {kinds}"
    )
    parser.add_argument("--only", default="", metavar="PATTERN", help="keys whose name this finds")
    parser.add_argument("--all", action="store_true", help="accepted differences too, with reasons")
    parser.add_argument("--output", choices=("text", "json"), default="text")
    options = parser.parse_args()
    for name in options.diff:
        host, _, port = name.rpartition(":")
        if name not in STARTED and not (host and port.isdigit()):
            parser.error(f"{name!r} is no broker: name HOST:PORT or one of {kinds}")
    try:
        re.compile(options.only)
    except re.error as error:
        parser.error(f"--only '{options.only}' is not a regular expression: {error}")
    return options


def _results(a: str, b: str, only: str) -> Generator[KeyResult, None, None]:
    with ExitStack() as stack:
        addresses = stack.enter_context(started(a, b))
        targets = [
            stack.enter_context(prepared(name, address))
            for name, address in zip((a, b), addresses, strict=True)
        ]
        yield from compared(targets[0], targets[1], only)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _said(sentence: str, code: int) -> int:
    print(f"Error: {sentence}", file=sys.stderr)
    return code


def _sentence(error: Exception) -> str:
    return str(error) or (error.__doc__ or "").strip().rstrip(".").lower()


if __name__ == "__main__":
    raise SystemExit(main())
