"""Upstream's shell tests around change streams, retries and routing, in Python, under the names they have there."""
