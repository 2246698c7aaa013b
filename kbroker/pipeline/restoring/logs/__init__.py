"""An archive written as the logs of a data directory, with the offsets that records had."""
