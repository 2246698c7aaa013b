"""Declarations of Kafka's messages, one file per API: request and response, with notes on what each
version changed.

Nothing lists the files, and importing this package imports none of them: whoever serves or sends an
API imports its file.
Law: a file stands here when a handler or a client reads it, or is about to.
"""
