"""What a guard has in each event loop: its runtime, what that remembers, and how it ends."""
