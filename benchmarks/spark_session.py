"""The one Spark session of a benchmark run: warm for every round and every target."""

from __future__ import annotations

import atexit
import functools
from typing import Any

CORES = 2


@functools.cache
def session() -> Any:
    """Local Spark with Kafka's connector and "kbroker-log", set up as `kbroker pipeline` does; C2
    and G1 stay, as they are in production.
    """
    from kbroker.pipeline import register
    from kbroker.pipeline.spark_job.session import SessionSettings, open_session

    spark = open_session(
        SessionSettings(master=f"local[{CORES}]", app_name="benchmarks", needs_connector=True)
    )
    register(spark)
    atexit.register(spark.stop)
    return spark
