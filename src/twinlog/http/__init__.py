"""The HTTP server: Connect's REST API, metrics, the web UI and its JSON API."""
