"""Spark tasks that write the records of a batch, and the facts they report."""
