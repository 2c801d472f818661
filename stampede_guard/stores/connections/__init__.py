"""Connections to servers: lanes, inboxes, scripts as calls, and what the wire says."""
