"""What is cleared: by which process, and how much of a store."""
