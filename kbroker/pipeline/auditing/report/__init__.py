"""The report for a person: page, plots and tables."""
