"""Log directories, archives and clusters checked against each other."""
