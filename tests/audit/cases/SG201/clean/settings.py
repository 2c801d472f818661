def theme(user, settings):
    found = settings.get("theme")
    if found is None:
        found = guess_theme(user)
        settings.set("theme", found)
    return found
