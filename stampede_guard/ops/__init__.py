"""What operators use: the command line, the doctor, and hooks for metrics, traces and logs."""
