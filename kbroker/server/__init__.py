"""The composition root: the broker is put together here."""
