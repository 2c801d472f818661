"""Values and keys: how calls become names, and results and errors become bytes."""
