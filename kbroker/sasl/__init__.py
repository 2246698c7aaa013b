"""Logins by SASL as values: tokens in, tokens and identities out."""
