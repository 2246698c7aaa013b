"""The data pipeline: Spark jobs over topics and log directories, and Spark data sources of its own.

Needs the extra `kbroker[spark]` and Java. Nothing else in the package imports this one but the
command line, which does so when a job is called.
"""
