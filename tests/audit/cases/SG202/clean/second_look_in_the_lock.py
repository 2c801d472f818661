class Nodes:
    def mapping(self, org):
        found = self.get_mapping_from_cache(org)
        if found:
            return found
        with DistributedLock(f"mapping-{org}"):
            found = self.get_mapping_from_cache(org)
            if found:
                return found
            found = self.generate(org)
            self.set_mapping_to_cache(org, found)
            return found
