"""Rules about what an entry is: its key, its lifetime, and what ends it (SG6xx)."""
