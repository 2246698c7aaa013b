"""What the one broker that is controller does to its cluster, by kind of event."""
