"""Fixes: how a rule can repair its finding.

A rule's `fix` reads the syntax tree and returns a `FixPlan`: edits by place, and whether they are safe. This costs
little, needs no other package, and lets every report show what `--fix` would do. LibCST rewrites the file only when
a plan is applied (`fixing`), so formatting and comments stay.

Safe means: as far as the file shows, only the herd changes for the callers of the function. A plan is unsafe if the
fix may change more: a guessed lifetime, other parts in the key, a value of undeclared type. `FixPlan.reasons` lists
what to review.
"""
