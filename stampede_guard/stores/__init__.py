"""The stores that keep entries. `protocol` is the port. Every store passes the contract suite in `tests/stores/`."""
