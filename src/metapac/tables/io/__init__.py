"""Reading and writing tables: files, databases and engines."""
