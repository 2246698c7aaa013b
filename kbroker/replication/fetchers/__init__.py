"""Followers: what they ask of leaders, and what they make of the answers."""
