"""Models of chips that are not here: printed kernels run on this CPU by a model of the machine, compiled with the system's C++ compiler."""
