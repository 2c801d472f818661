"""SG3xx: locks that do not hold, or never end."""
