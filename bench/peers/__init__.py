"""The library beside its peers: one harness, one server, eight processes of fifty callers."""
