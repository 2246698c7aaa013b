"""Entry of the `kbroker` command: lets an interrupt end the process in silence and the garbage
collector rest, then imports what follows.

Until then Python answers Ctrl-C with a traceback.
"""

import signal
import sys
from collections.abc import Sequence

from kbroker.start_collections import collecting_rarely


@collecting_rarely()  # from before the rest is imported
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; ends the process with the exit code of the contract."""
    is_answered = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_answered:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from kbroker.cli.command_line import run

    if is_answered:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(run(arguments))


if __name__ == "__main__":
    main()
