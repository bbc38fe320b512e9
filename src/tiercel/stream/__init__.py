"""What do I learn from one sample at a time, at constant cost?"""

from tiercel.stream.recursive_ridge import RecursiveRidge

__all__ = ["RecursiveRidge"]
