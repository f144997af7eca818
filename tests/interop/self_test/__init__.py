"""Tests of the scripts beside this folder: that each of them can fail."""
