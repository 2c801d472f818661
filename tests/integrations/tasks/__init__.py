"""Task systems, each with its real broker and real worker processes."""
