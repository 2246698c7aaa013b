"""What a running broker does besides answering."""
