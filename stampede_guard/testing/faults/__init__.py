"""A store that fails when a test tells it to."""
