"""How a broker becomes part of its cluster, is reached there, and leaves."""
