"""What a whole fleet does now, for a person who watches: the same numbers for every screen."""
