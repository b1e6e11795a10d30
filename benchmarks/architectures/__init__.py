"""Architectures that people have, by library: each built small, with random weights, and nothing downloaded."""
