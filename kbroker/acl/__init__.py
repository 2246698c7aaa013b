"""Access rules as values: what a rule says, which of them a filter means, what they allow. Pure."""
