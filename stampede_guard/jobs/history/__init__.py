"""What became of the runs of jobs: records, statistics, a page, and which jobs are overdue."""
