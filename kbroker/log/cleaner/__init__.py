"""The log cleaner: which log is cleaned next, the cleaning itself, and who carries it out."""
