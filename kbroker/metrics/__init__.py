"""The broker's metrics as text for Prometheus, under the names that boards ask for.

Pure. The values come from the samples of a `CounterRegistry`.
"""
