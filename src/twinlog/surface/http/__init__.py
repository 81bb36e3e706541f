"""What is served over HTTP: Connect's REST API, metrics, the page and what it is drawn from."""
