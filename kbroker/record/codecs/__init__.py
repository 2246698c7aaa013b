"""The formats of compressed payloads, one file each; read as Java's brokers and clients do."""
