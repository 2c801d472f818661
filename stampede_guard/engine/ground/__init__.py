"""What one event loop's part of a guard consists of, without its flights. So a flight asks downward."""
