"""How the cost of a call grows with processes and keys, and where one server ends."""
