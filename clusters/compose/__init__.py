"""Clusters of containers: the Compose files they are described by, images to run, and what talks to the engine."""
