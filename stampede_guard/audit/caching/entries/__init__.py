"""What an entry holds, and under which key: inputs of values, templates of keys, deletions."""
