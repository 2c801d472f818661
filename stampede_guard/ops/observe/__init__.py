"""Hooks for existing tools: Prometheus, OpenTelemetry, a log. Each is a module and an extra of its own.

    guard = StampedeGuard.from_url("redis://...", hooks=(PrometheusHook(), LogHook()))

They are ordinary hooks (see `stampede_guard.events`). Your own hook is a function.
"""
