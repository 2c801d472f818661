"""An operator's view of a store: what the command line and the doctor ask servers."""
