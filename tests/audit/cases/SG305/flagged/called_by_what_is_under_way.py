def rebuild(request):
    regenerating = get_shared_cache_elem("regenerating")
    status = "under way" if regenerating else "started"
    if not regenerating:
        set_shared_cache_elem("regenerating", True)
        library.fill(rebuild=True)
    return answer({"status": status})
