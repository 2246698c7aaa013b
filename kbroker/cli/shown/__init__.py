"""What a terminal or a program sees: tables, lines, formats, progress."""
