"""An archive written into the topics of a cluster, in transactions, with maps of offsets."""
