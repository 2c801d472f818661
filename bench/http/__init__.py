"""HTTP caches side by side: what a hit costs, and what an expiry does to the application."""
