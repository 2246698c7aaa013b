"""An archive written back: into the topics of a cluster, or into logs."""
