"""Fixes: what a rule may do about what it found.

A rule's `fix` looks at the syntax tree and answers with a `Plan`: edits by place, and whether they are safe. That
costs nothing beside the rule, needs no other package, and tells every report what `--fix` would do. Only when a plan
is carried out (`apply`) does LibCST rewrite the file, so that formatting and comments stay as they were.

Safe means: for the callers of the function nothing changes but the herd, as far as the file itself tells. What else
a cure may change (a lifetime that had to be guessed, a key that is made of other things, a value whose type nothing
declares) makes the plan unsafe, and `Plan.reasons` says what to look at.
"""
