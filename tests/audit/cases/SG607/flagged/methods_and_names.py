from connexion import request

from app.caching import cached
from app.services import notes
from flask.views import MethodView


@cached(timeout=30)
def notes_put(body):
    notes.set_read(body["items"])
    return {}, 204


class Note(MethodView):
    @cached(timeout=30)
    def get(self, note):
        return notes.get(note)

    @cached(timeout=30)
    def delete(self, note):
        notes.delete(note)
        return "", 204
