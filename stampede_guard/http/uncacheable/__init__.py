"""What could not be stored lately, and which requests therefore do not wait, or go past the cache."""
