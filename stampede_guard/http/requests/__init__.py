"""What is asked for: the request, its routes and settings, the names of its entries, what is stored."""
