"""How far groups and Spark queries are behind; offsets of Spark queries as group offsets."""
