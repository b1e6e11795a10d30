"""The tile program: the one form that every target's emitter reads, how it is derived, and the passes over it."""
