"""Arguments that several commands take: addresses, names, times, settings, and their refusals."""
