"""When jobs are due: schedules, time zones, and the dialects of cron expressions."""
