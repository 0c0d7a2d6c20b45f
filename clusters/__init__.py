"""Clusters: what one is made of, how it is brought up and talked to, and what becomes of it when its owner is gone."""
