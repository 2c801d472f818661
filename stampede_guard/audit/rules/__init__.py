"""One file per rule. A file in this folder is registered by itself."""
