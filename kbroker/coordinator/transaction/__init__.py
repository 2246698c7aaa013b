"""Transactions: their states and records, the store that keeps them, and their markers."""
