"""What a person is given: page, plots, tables, and what each code means."""
