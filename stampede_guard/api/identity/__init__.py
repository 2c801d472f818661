"""What makes two functions the same one, and which names a guard has given away."""
