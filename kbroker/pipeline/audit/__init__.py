"""Log directories, archives and clusters held against each other."""
