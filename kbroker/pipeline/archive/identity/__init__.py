"""Whether a source still is the one that was archived: cluster, leader epochs, newest record."""
