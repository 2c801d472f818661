"""The arguments of a call as its key sees them: bound, captured, and fitted to their annotations."""
