"""The declared type as a filter: what of a result is stored, and what every caller gets."""
