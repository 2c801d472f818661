"""One file per rule; being here registers it."""
