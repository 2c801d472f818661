"""Files for Prometheus and Grafana: alert rules and a dashboard, made for the metrics of `PrometheusHook`.

`stampede-guard dashboards DIRECTORY` copies them. docs/operators.md says what to do for each alert.
"""
