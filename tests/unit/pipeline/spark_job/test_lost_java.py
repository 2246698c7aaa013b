"""One sentence for a Java process that has gone."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Iterator

import pytest

from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.spark_job import lost_java

_FOR_EVER = [sys.executable, "-c", "import time; time.sleep(600)"]


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    running = subprocess.Popen(_FOR_EVER)
    monkeypatch.setattr(lost_java, "java_process", lambda: running)
    yield running
    running.kill()
    running.wait()


def test_errors_are_one_sentence_when_the_java_process_was_killed(
    process: subprocess.Popen[bytes],
) -> None:
    process.kill()

    with pytest.raises(PipelineError) as raised, lost_java.java_sentence():
        raise ConnectionRefusedError(111, "Connection refused")

    assert raised.value.sentence == lost_java.JAVA_ENDED


def test_errors_are_their_own_while_the_java_process_runs(
    process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lost_java, "_GRACE_S", 0.01)

    with pytest.raises(ValueError, match="a fault of the job"), lost_java.java_sentence():
        raise ValueError("a fault of the job")

    assert process.poll() is None


def test_no_process_of_ours_has_not_ended() -> None:
    assert not lost_java.has_ended(None)


class _CutSession:
    """Stops as pyspark does when Java's answer does not come."""

    def stop(self) -> None:
        self.is_stopped = True
        warnings.warn("Unable to cleanly shutdown Spark JVM process.", RuntimeWarning, stacklevel=2)


def test_a_session_that_is_cut_while_it_stops_is_no_reason_to_warn() -> None:
    session = _CutSession()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lost_java.stop_quietly(session)

    assert session.is_stopped


def test_what_an_interrupted_call_made_of_ctrl_c_is_known_for_it() -> None:
    def interrupted() -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise OSError("cannot clean up")

    with pytest.raises(OSError, match="clean up") as failed:
        interrupted()

    assert lost_java.was_interrupted(failed.value)
    assert not lost_java.was_interrupted(OSError("refused"))
    assert not lost_java.was_interrupted(None)
