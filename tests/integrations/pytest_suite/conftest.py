"""The plugin, as a user's project takes it."""
pytest_plugins = ["pytest_weft"]
