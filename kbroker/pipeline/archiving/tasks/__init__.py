"""What Spark tasks do with the records of a batch, and what they say of it."""
