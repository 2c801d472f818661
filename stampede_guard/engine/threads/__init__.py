"""Plain functions: the portal to an event loop of our own, and the threads in which they compute."""
