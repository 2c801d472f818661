"""The command that delivers the outbox."""
