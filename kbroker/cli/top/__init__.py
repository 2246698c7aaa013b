"""`kbroker top`: what a cluster does now, on a screen or once."""
