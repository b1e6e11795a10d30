"""The e-graphs: of a graph and of a kernel's schedules, on egglog; covers and prices of what they hold."""
