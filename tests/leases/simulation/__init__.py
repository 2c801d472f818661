"""The real lease code in virtual time: seeded faults, a modelled network and store, invariants.

`python -m tests.leases.simulation 17` plays seed 17 again and tells what happened.
"""
