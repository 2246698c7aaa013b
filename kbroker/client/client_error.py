"""Errors that end a command, each with one sentence for a person."""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from kbroker.client.exit_code import ExitCode
from kbroker.errors import ErrorCode, ExplainedError, KafkaError, Trouble

CONTROLLER_MOVED = "the controller has just moved: try again; if it stays so, its log says why"


class EndingError(ExplainedError):
    """An error with one sentence for a person; `code` is the exit code of the contract."""

    def __init__(
        self,
        sentence: str,
        code: ExitCode = ExitCode.ITEM_FAILED,
        trouble: Trouble | None = None,
    ) -> None:
        super().__init__(sentence, trouble)
        self.sentence = sentence
        self.code = code


class ClientError(EndingError):
    """A cluster that cannot be used, or refuses a request."""


def sentence_of(error: Exception) -> str:
    """Return the name and the text of a client error in one line."""
    text = " ".join(str(error).split())
    name = type(error).__name__
    return text if text.startswith(name) or name in text else f"{name}: {text}"


def unanswered(address: str, error: Exception) -> ClientError:
    """Return the error for a broker that accepts a connection, and then answers too late."""
    return ClientError(
        f"{address} did not answer in time: {error}", ExitCode.TIMEOUT, Trouble.NO_ANSWER
    )


@contextmanager
def link_errors(bootstrap: str) -> Iterator[None]:
    """Turn errors of links, and refusals of brokers, into ClientErrors."""
    try:
        yield
    except BrokenPipeError:
        raise  # of standard output
    except TimeoutError as error:
        raise unanswered(bootstrap, error) from error
    except OSError as error:
        if is_of_full_disk(error):
            raise  # of the output: no connection ends so
        reason = f"a broker of {bootstrap} cannot be reached: {error}"
        raise ClientError(reason, ExitCode.CANNOT_CONNECT, Trouble.ADVERTISED_ADDRESS) from error
    except struct.error as error:  # of a field that a number does not fit into
        raise ClientError("a number is beyond what Kafka takes", ExitCode.USAGE) from error
    except KafkaError as error:
        is_bare = error.code == ErrorCode.NOT_CONTROLLER and not error.message
        sentence = f"{CONTROLLER_MOVED} ({error.code.name})" if is_bare else str(error)
        raise ClientError(sentence) from error


def is_of_full_disk(error: OSError) -> bool:
    """Whether a file could not be written for lack of space or by a limit of its size."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
