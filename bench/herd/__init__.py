"""The production herd, reproduced and cured: eight workers, one expiring entry, one real database.

`python -m bench.herd --help` lists what can be run.
"""
