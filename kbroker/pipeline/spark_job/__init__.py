"""The parts that all jobs share: session, settings, the run of a stream, progress and report."""
