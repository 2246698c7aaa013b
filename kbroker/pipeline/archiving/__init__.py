"""Topics as Parquet files: manifests, staging and publishing, merging, retention, reading."""
