"""Four uvicorn workers, each with a scheduler in its lifespan: every job runs four times. Before and after."""
