"""What users import: the guard, the decorators, and what they are given."""
