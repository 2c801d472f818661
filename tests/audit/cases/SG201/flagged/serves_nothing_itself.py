def prepare_sites():
    sites = cache.get("sites")
    if not sites:
        sites = list(Account.objects.values("domain").annotate(total=Count("domain")))
        cache.set("sites", sites, timeout=28800)
