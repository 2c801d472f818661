"""What a face may do with entries without a call: look, set, invalidate."""
