"""Rules about kernels and schedules, checked on drawn kernels: what a schedule of theirs visits, holds and orders."""
