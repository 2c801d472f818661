"""SG2xx: caches filled by hand."""
