"""Transactions: the decisions of their coordinator, and the records of `__transaction_state`."""
