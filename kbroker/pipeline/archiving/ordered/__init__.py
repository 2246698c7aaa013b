"""The rows of a partition of an archive by rising offset, whatever files they are in."""
