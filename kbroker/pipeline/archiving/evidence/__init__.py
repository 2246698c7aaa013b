"""What a source says when an archive asks: is it the same still, and why do offsets hold nothing?

Two questions (`same_source`, `hole_reasons`), two kinds of source that answer both
(`cluster_evidence`, `log_evidence`).
"""
