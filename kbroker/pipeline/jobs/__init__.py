"""A function for each job, for notebooks, schedulers and commands."""
