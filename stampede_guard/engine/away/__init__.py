"""What is known and what is done while the store is away, refuses or only reads."""
