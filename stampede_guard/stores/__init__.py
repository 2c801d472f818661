"""Where entries live. `protocol` is the port; every store passes the contract suite in `tests/stores/`."""
