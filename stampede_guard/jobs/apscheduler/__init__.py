"""Jobs of APScheduler, versions 3 and 4, each slot in one worker."""
