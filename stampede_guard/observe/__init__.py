"""Where programs import the hooks from; they are in `ops.observe`."""
