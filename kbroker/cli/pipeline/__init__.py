"""The commands `kbroker pipeline ...`."""
