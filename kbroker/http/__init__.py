"""The HTTP address of a broker: a listening socket, and a thread once somebody has connected."""
