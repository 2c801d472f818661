"""SG4xx and SG5xx: what goes wrong when a program runs in several workers."""
