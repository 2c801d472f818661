"""Applications: a guard is installed in one, and knows its routes from then on."""
