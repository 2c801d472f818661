from app import cache



def insights(request, slug):
    project = get_object_or_404(Project.visible_for(request.user), slug=slug)
    found = cache.get(f"insights:{slug}")
    if not found:
        found = load(project=project)
        cache.set(f"insights:{slug}", found, 60)
    return found
