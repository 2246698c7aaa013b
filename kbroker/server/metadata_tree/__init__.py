"""The place of a broker's metadata, its owner, and its moves."""
