"""Lets Spark find the data source "kbroker-log" by itself.

pyspark asks every top-level module named pyspark_* for a `DefaultSource`, in each session that
looks a Python data source up. Law: an import that fails here would fail all of them, so that
without the extra `kbroker[spark]` there just is no source.
"""

try:
    from kbroker.pipeline.logdir.source.data_source import KbrokerLogDataSource as DefaultSource
except ImportError:
    __all__: list[str] = []
else:
    __all__ = ["DefaultSource"]
