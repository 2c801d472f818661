"""Which entry a request asks for, where responses say that parts of the query do not matter."""
