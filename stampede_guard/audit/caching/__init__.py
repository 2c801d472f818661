"""How code uses a cache: reads, writes and keys, where a value goes, and what locks out a second caller."""
