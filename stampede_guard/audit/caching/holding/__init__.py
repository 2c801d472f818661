"""Lock objects of libraries: how a program makes them, and whether it reads that they were taken."""
