def nightly():
    if not cache.get("nightly-state"):
        cache.set("nightly-state", True, None)
        collect()
        cache.set("nightly-state", False, None)
