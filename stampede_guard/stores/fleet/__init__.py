"""What a fleet keeps in the store beside its entries."""
