"""How a session is set up, and why it did not come up."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.spark_job import kafka_connector, session
from kbroker.pipeline.spark_job.ivy_cache import filled_alone
from kbroker.pipeline.spark_job.session import SessionSettings, open_session, spark_conf
from kbroker.pipeline.spark_job.temporary_folder import remove_temporary_folders, temporary_folder


def test_a_local_session_serves_nobody_and_keeps_its_files_together(tmp_path: Path) -> None:
    conf = spark_conf(SessionSettings(), "4.0.0", tmp_path)

    assert conf["spark.master"] == "local[*]"
    assert conf["spark.ui.enabled"] == "false"
    assert conf["spark.sql.session.timeZone"] == "UTC"
    assert conf["spark.driver.bindAddress"] == "127.0.0.1"
    assert conf["spark.driver.extraJavaOptions"] == "-Duser.timezone=UTC"
    assert conf["spark.local.dir"] == str(tmp_path / "local")
    assert "spark.jars.packages" not in conf


def test_a_cluster_chooses_addresses_and_disks_itself(tmp_path: Path) -> None:
    conf = spark_conf(SessionSettings(master="spark://h:7077"), "4.0.0", tmp_path)

    assert not {"spark.driver.bindAddress", "spark.local.dir", "spark.driver.memory"} & set(conf)


def test_what_a_person_sets_wins(tmp_path: Path) -> None:
    settings = SessionSettings(conf={"spark.ui.enabled": "true", "spark.driver.memory": "8g"})

    conf = spark_conf(settings, "4.0.0", tmp_path)

    assert (conf["spark.ui.enabled"], conf["spark.driver.memory"]) == ("true", "8g")


def test_without_pyspark_a_person_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)

    with pytest.raises(PipelineError, match=r"pip install 'kbroker\[spark\]'"):
        open_session(SessionSettings())


def test_a_master_that_does_not_answer_is_named() -> None:
    text = (
        "WARNING: Using incubator modules\n"
        'Exception in thread "main" org.apache.spark.SparkException: Could not parse Master URL\n'
        "\tat org.apache.spark.SparkContext\n"
    )

    sentence = session._why_not(text, SessionSettings(master="sparky"))

    assert sentence == (
        "Spark did not start with master sparky: SparkException: Could not parse Master URL "
        "(--verbose shows all that Java says)"
    )


@pytest.mark.parametrize("fetched", [True, False])
def test_two_jobs_do_not_fetch_the_connector_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fetched: bool
) -> None:
    cache = tmp_path / ".ivy2.5.2" / "cache"
    is_there, asks = [False], threading.Event()

    def jars_of_cache(*_: object) -> list[str] | None:
        asks.set()
        return ["connector.jar"] if is_there[0] else None

    started: list[dict[str, str]] = []
    monkeypatch.setattr(session, "ivy_cache", lambda _conf: cache)
    monkeypatch.setattr(kafka_connector, "cached_jars", jars_of_cache)
    monkeypatch.setattr(session, "_start", lambda conf, *_: started.append(conf))
    settings = SessionSettings(needs_connector=True)
    arguments = (settings, "4.0.0", tmp_path)
    other = threading.Thread(target=session._start_filling_cache, args=arguments)

    with filled_alone(cache):
        other.start()
        assert asks.wait(30)
        assert started == []
        is_there[0] = fetched
    other.join(30)

    (conf,) = started
    assert ("spark.jars.packages" in conf) is not fetched
    with filled_alone(cache):  # nobody holds it any more
        pass


def test_where_nothing_can_be_locked_nobody_waits(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with filled_alone(tmp_path / "file" / "cache"):
        pass


def test_what_a_killed_process_left_behind_goes_with_the_next_one(tmp_path: Path) -> None:
    left_behind = tmp_path / "kbroker-spark-dead"
    left_behind.mkdir()
    (left_behind / "owner.lock").touch()
    (left_behind / "java-output.txt").touch()
    foreign = tmp_path / "kbroker-spark-without-lock"
    foreign.mkdir()

    own = temporary_folder(tmp_path)
    other = temporary_folder(tmp_path)

    assert not left_behind.exists()
    assert all(folder.is_dir() for folder in (foreign, own, other))
    remove_temporary_folders()
    assert not own.exists()
    assert not other.exists()
