"""Quotas of clients: for whom they are, which one holds, how use is measured. Pure."""
