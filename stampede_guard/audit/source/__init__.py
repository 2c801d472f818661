"""A source file as the rules see it: its functions, names, routes and what runs at start-up."""
