"""Tags: their names from templates, the versions that an entry was made under, and the checks of these."""
