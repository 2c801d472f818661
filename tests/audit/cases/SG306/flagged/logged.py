def rebuild(table):
    try:
        db().get_lock(f"rebuild:{table}", 300)
    except DatabaseException as error:
        logger.warning("no lock for %s: %s", table, error)
    db().execute(f"DROP TABLE {table}")
    db().release_lock(f"rebuild:{table}")
