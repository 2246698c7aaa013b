"""Record batches and compression. Pure."""
