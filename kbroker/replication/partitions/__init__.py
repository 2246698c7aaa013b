"""One partition held by this broker: who leads it, who is in sync, how far it is committed."""
