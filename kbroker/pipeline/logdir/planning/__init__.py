"""From options to tasks, and the reading of these; no Spark."""
