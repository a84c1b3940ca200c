"""Contracts that come with Turnback, for MCP servers in wide use; each is tried on the real one.

A server gets one by its setting `overlay`. A file here has the form of an administrator's.
"""
