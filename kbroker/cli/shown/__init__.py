"""Output for a terminal or a program: tables, lines, formats, progress."""
