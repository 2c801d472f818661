"""Hooks for what a team has already: Prometheus, OpenTelemetry, its log. Each is a module, and an extra, of its own.

    guard = StampedeGuard.from_url("redis://...", hooks=(PrometheusHook(), LogHook()))

They are ordinary hooks (see `stampede_guard.events`); one's own is a function.
"""
