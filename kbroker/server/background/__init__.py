"""The work of a running broker besides answering."""
