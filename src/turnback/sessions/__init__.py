"""Live sessions: one actor each, its command queue, its run and lease, its broadcast.

An actor takes one command at a time: the core decides, the store commits, memory follows, then
the subscribers are told. Nothing is told before it is durable.
"""
