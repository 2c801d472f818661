"""What the URL of a store says: its addresses and its options."""
