"""The pytest plugin behind `pytest_mongofault`: clusters of a session, on a thread of their own, broken by tests."""
