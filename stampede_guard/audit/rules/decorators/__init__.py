"""SG1xx: decorators of cache libraries that let every caller compute."""
