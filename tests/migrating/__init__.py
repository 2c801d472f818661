"""The pages about other caches: each pair of code is run with the real library."""
