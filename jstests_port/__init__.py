"""Upstream's shell tests around change streams and routing, in Python; room for them, none is ported yet."""
