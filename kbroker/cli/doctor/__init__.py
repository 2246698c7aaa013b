"""`kbroker doctor`: `probes/` look at a cluster, `rules/` say what was seen, what it means and what
mends it.
"""
