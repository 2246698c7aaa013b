"""What controller and brokers say to each other, and how it gets there."""
