"""Delegation tokens (KIP-48, KIP-373): what one says, how it is signed, how long it lasts. Pure."""
