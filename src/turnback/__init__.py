"""Turnback: a self-hosted agent service whose agent turns can be taken back truthfully."""

__version__ = "0.1.0"
