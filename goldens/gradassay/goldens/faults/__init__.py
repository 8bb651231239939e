"""The catalogue of public faults and their signatures."""

from gradassay.goldens.faults.catalogue import Convention, Fault, load_catalogue, load_conventions, look_alikes

__all__ = ["Convention", "Fault", "load_catalogue", "load_conventions", "look_alikes"]
