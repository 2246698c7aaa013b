"""Rules over topics: windows, joins, sums and scores, whose results go into topics exactly once."""
