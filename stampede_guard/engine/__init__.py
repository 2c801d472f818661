"""The engine: what happens on a call, behind the doors that `api`, `http` and `leases` use."""
