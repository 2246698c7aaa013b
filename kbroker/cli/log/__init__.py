"""`kbroker log`: files of a data directory, without a broker."""
