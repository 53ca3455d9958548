"""Data that ships with the course, and the script that made it."""
