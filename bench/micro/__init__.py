"""The speed table: what a cached call costs, against the bare client that its user would otherwise write."""
