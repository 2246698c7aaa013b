"""Record batches and compression, pure."""
