"""What has to go: segments beyond retention, partitions that were deleted."""
