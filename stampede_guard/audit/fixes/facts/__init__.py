"""What a fix must know of the code around it before it changes anything."""
