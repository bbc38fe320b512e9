"""What do I learn from one sample at a time, at constant cost?"""

from tiercel.stream.hyperparameters import SpectrumHyperparameters
from tiercel.stream.recursive_ridge import RecursiveRidge
from tiercel.stream.sparse_spectrum_gp import SparseSpectrumGP

__all__ = ["RecursiveRidge", "SparseSpectrumGP", "SpectrumHyperparameters"]
