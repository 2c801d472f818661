class Library:
    def titles(self, language):
        if not self._titles.get(language):
            self._titles[language] = cache.get("titles_" + language)
            if not self._titles.get(language):
                titles = self.query_titles(language)
                self._titles[language] = titles
                cache.set("titles_" + language, titles)
        return self._titles[language]
