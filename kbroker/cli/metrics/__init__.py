"""`kbroker metrics`: a board, alerting rules and a configuration for those who keep the metrics."""
