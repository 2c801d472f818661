def clusters(query):
    key = key_of(query)
    results = cache.get(key)
    if results is None:
        results = cluster(query)
        results["names"] = names_of(results)
        cache.set(key, results, 3600)
    return results
