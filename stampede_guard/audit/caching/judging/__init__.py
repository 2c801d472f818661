"""Is a get with a set a fill worth a remark: does a hit spare work, does a miss cost I/O, can the value be falsy?"""
