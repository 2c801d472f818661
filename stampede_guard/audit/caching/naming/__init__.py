"""What the names of methods and of a project's helpers say about a cache."""
