"""Sockets, frames and the queue of requests."""
