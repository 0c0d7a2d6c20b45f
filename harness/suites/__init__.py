"""Suites: many questions asked of one server, each by runs and looks of its own, their answers in one finding."""
