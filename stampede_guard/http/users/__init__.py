"""The users of private entries: who asks, by what an option names."""
