"""What all jobs share: the session, settings, the run of a stream, its progress and report."""
