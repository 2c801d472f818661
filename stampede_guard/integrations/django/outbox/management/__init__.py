"""For Django, which looks here for commands of the outbox."""
