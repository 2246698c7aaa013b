"""What clients and followers read: records, in sessions or not; offsets; data directories."""
