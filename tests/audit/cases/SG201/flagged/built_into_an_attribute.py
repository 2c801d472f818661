class Library:
    def build_books(self):
        self._books = [book.title for book in Books.objects.all()]

    def books(self):
        if not self._books:
            self._books = cache.get("books")
            if not self._books:
                self.build_books()
                cache.set("books", self._books)
        return self._books
