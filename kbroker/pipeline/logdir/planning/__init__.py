"""From options to what each task reads, and the reading of it; no Spark."""
