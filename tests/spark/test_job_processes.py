"""Jobs as a person runs them: Ctrl-C, a killed driver, and what is left of Java afterwards."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Producer

from compat_tests.clients.every_client import create_topic
from compat_tests.running.waiting import until

LONGEST_WAIT_S = 120
OPEN_SESSION = f"""
import time
from kbroker.pipeline.spark_job.session import SessionSettings, open_session
open_session(SessionSettings(master="local[1]"))
print("open", flush=True)
time.sleep({LONGEST_WAIT_S})
"""
RUN_SESSIONS = """
from pathlib import Path
import pyspark
def is_compiled(_number):
    return Path(pyspark.__cached__).is_file()  # nothing of what comes from a zip is
from kbroker.pipeline.spark_job.session import SessionSettings, running_session
with running_session(SessionSettings(master="local[1]")) as spark:
    print(spark.range(3).count())
    print(spark.sparkContext.range(1).map(is_compiled).first())
with running_session(SessionSettings(master="local[1]")) as spark:  # of the same Java
    home = Path(spark._jvm.System.getenv("SPARK_HOME"))
    print((home / "jars").is_dir(), spark.sparkContext.range(1).map(is_compiled).first())
print(home.exists())
"""


def start(bootstrap: str, topic: str, folder: Path) -> subprocess.Popen[str]:
    """An archive job without end, once its first batch is done; a process group of its own."""
    metrics = folder / "metrics.jsonl"
    process = subprocess.Popen(
        [
            sys.executable, "-m", "kbroker.cli", "pipeline", "archive",
            "--bootstrap", bootstrap, "--topics", topic, "--to", str(folder / "archive"),
            "--checkpoint", str(folder / "checkpoint"), "--every", "1s", "--master", "local[1]",
            "--metrics", str(metrics), "--spark-conf", "spark.driver.memory=512m",
            "--output", "csv",
        ],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    until(
        lambda: (metrics.exists() and metrics.stat().st_size > 0) or process.poll() is not None,
        timeout_s=LONGEST_WAIT_S,
    )
    assert process.poll() is None, process.communicate()
    return process


def processes_below(pid: int) -> list[int]:
    parents = {}
    for status in Path("/proc").glob("[0-9]*/status"):
        with suppress(OSError):  # it has just ended
            (parent,) = re.findall(r"^PPid:\t(\d+)$", status.read_text(), re.MULTILINE)
            parents[int(status.parent.name)] = int(parent)
    found = [pid]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found[1:]


def is_alive(pid: int) -> bool:
    """A process that has ended and that nobody has asked for is dead."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_ctrl_c_ends_a_job_after_its_batch_with_a_report_and_no_process_stays(
    bootstrap: str, topic: str, tmp_path: Path
) -> None:
    create_topic(bootstrap, topic, 1)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(50):
        producer.produce(topic, value=str(number).encode())
    assert producer.flush(30) == 0
    process = start(bootstrap, topic, tmp_path)
    below = processes_below(process.pid)

    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    out, err = process.communicate(timeout=LONGEST_WAIT_S)

    assert process.returncode == 130, err
    assert f"{topic},0,0,50" in out
    assert "archive stopped after a batch: 50 rows" in err
    assert "Traceback" not in err
    assert below
    until(lambda: not any(is_alive(pid) for pid in below))


def test_java_ends_when_its_driver_is_killed(spark: object) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", OPEN_SESSION], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    below = processes_below(process.pid)

    process.kill()
    process.communicate(timeout=LONGEST_WAIT_S)

    assert below
    until(lambda: not any(is_alive(pid) for pid in below))


@pytest.mark.timeout(3 * LONGEST_WAIT_S)
def test_sessions_have_pyspark_compiled_and_leave_nothing_behind(tmp_path: Path) -> None:
    work, temporary = tmp_path / "work", tmp_path / "temporary"
    work.mkdir()
    temporary.mkdir()

    done = subprocess.run(
        [sys.executable, "-c", RUN_SESSIONS],
        cwd=work, env={**os.environ, "TMPDIR": str(temporary)},
        capture_output=True, text=True, timeout=2 * LONGEST_WAIT_S, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stdout) == (0, "3\nTrue\nTrue True\nTrue\n"), done.stderr
    assert list(work.iterdir()) == []
    assert list(temporary.glob("kbroker-*")) == []
