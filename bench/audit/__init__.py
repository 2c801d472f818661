"""How fast the audit reads a large tree, beside two tools that read trees as well: `make bench-audit`."""
