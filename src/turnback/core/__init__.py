"""The rules. Pure: no await, no clock, no database, no web framework.

Time and ids are handed in; a command goes in, events or a refusal come out. This room imports
nothing of ours, and everything else of ours may import it.
"""
