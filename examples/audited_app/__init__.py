"""The application that the audit is shown on: fourteen endpoints, one cache decorator, no lock. See README.md."""
