"""Which parts of a query matter, as pure functions."""
