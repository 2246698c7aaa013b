"""Sockets, frames, queues."""
