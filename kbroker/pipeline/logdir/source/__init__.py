"""The data source "kbroker-log" as pyspark calls it."""
