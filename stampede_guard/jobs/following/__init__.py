"""A worker follows its schedules: it looks at the back end and takes the slots that are due."""
