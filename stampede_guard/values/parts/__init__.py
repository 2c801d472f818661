"""Parts of a key: one value as text that no different value has."""
