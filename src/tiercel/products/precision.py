"""What float32 can be trusted with: the limits that keep answers float32-grade."""

from __future__ import annotations

#: Scaled squared norm from which a row is worked in float64. Below it a Gaussian's
#: exponent is known to about FAR * 2**-24: products keep a relative error near 1e-6.
FAR = 32.0

#: Below this share of the row's squared norm a distance has lost ten bits or more.
NEAR = 2.0**-10

#: Scaled squared norm from which rounding shows in float64 distances of near pairs.
LARGE = 2.0**20

#: Numbers of a tile that are made again, wider or pair by pair, at a time: on a
#: processor, and on a device, which wants more work at once.
REMADE, REMADE_ON_DEVICE = 2**17, 2**23

#: The precisions that may be asked for, and what they mean.
PRECISIONS = {
    "auto": "answers as exact as the dtype of the data allows",
    "fast": "on a GPU one pass of half-width products: relative error near 1e-3",
    "highest": "float64 inside, whatever the dtype of the data",
}
