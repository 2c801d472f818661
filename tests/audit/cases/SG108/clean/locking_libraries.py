from async_lru import alru_cache
from dogpile.cache import make_region

region = make_region()


@region.cache_on_arguments()
def one(): ...


@alru_cache
async def two(): ...
