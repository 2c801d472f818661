"""Which files are audited, and what is known about them: ignored, changed, suppressed, known findings."""
