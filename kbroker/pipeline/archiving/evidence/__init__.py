"""Evidence from the source for an archive: is it still the same, and why do offsets hold nothing?

Two questions (`same_source`, `hole_reasons`), two kinds of source that answer both
(`cluster_evidence`, `log_evidence`).
"""
