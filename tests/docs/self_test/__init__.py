"""Self-tests of what checks the documentation."""
