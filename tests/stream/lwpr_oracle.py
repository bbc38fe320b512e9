"""Locally weighted projection regression as the papers write it: plain numpy, slow.

One output, one object per field, one line per formula. The compiled regressor must
agree with it to rounding.
"""

from __future__ import annotations

import numpy as np

NEAR, TINY = 1e-3, 1e-10


class Field:
    """One receptive field: a local PLS regression and its metric diag(root^2)."""

    def __init__(self, model, x, y, like=None):
        d = len(x)
        self.center, self.mean, self.mean_y = x.copy(), np.zeros(d), y
        self.root = np.sqrt(np.broadcast_to(model.init_metric, d)).astype(float)
        self.rate = np.full(d, float(model.init_rate))
        directions = min(2, d)
        if like is not None:
            self.root, self.rate = like.root.copy(), like.rate.copy()
            self.mean_y = like.mean_y  # at a weight of 1e-10, as in the library
            directions = len(like.beta)
        self.log_rate, self.trace = np.log(self.rate + TINY), np.zeros(d)
        self.error, self.trusted = 0.0, False
        self.u = self.p = np.eye(directions, d)
        self.q, self.P = np.zeros((2, directions, d))
        self.W = np.full(directions, TINY)
        self.S = np.full(directions, TINY)
        self.n = np.full(directions, TINY)
        self.forget = np.full(directions, model.forgetting[0])
        self.beta, self.B, self.E, self.H, self.Q = np.zeros((5, directions))

    def activation(self, x):
        return np.exp(-0.5 * np.sum(self.root**2 * (x - self.center) ** 2))

    def scores(self, z):
        """Return the coordinates of z along the directions, and what each one sees."""
        s, left = np.zeros(len(self.beta)), np.zeros_like(self.u)
        for r in range(len(s)):
            left[r] = z
            s[r] = self.u[r] @ z
            z = z - s[r] * self.p[r]
        return s, left

    def used(self):
        """Return how many directions are old enough to predict with."""
        R, d = self.u.shape
        return R if self.n[-1] > 2 * d or R == 1 else R - 1

    def predict(self, x):
        R = self.used()
        return self.mean_y + self.beta[:R] @ self.scores(x - self.mean)[0][:R]

    def update(self, model, x, y, w):
        d, before = len(x), self.forget[0] * self.W[0]
        self.mean = (before * self.mean + w * x) / (before + w)
        self.mean_y = (before * self.mean_y + w * y) / (before + w)
        z, e0 = x - self.mean, y - self.mean_y
        s, left = self.scores(z)
        errors = e0 - np.cumsum(self.beta * s)  # leave-one-out: the old beta
        targets = np.r_[e0, errors[:-1]]
        lam = self.forget
        self.W = lam * self.W + w
        self.q = (0.9 + 0.1 * lam)[:, None] * self.q + w * targets[:, None] * left
        norms = np.linalg.norm(self.q, axis=1)
        moved = norms > 1e-12
        self.u = self.u.copy()
        self.u[moved] = self.q[moved] / norms[moved, None]
        self.S = lam * self.S + w * s**2
        self.B = lam * self.B + w * s * targets
        self.P = lam[:, None] * self.P + w * s[:, None] * left
        self.beta, self.p = self.B / self.S, self.P / self.S[:, None]
        s, _ = self.scores(z)
        R = self.used()
        e_cv, e = errors[R - 1], e0 - self.beta[:R] @ s[:R]
        self.trusted = self.n[0] > 2 * d
        if self.n[0] * (1 - lam[0]) > 0.1:
            self.E = lam * self.E + w * errors**2
            self.error = lam[-1] * self.error + w * e**2
            self.update_metric(model, x, w, s, e, e_cv, self.E[R - 1])
        self.add_direction(model)
        self.n = self.forget * self.n + 1
        _, last, blend = model.forgetting
        self.forget = blend * self.forget + (1 - blend) * last

    def update_metric(self, model, x, w, s, e, e_cv, E):
        ready = self.n * (1 - self.forget[0]) > 0.1
        W, H, Q = self.W[0], np.where(ready, self.H, 0), np.where(ready, self.Q, 0)
        t = np.where(ready, s / self.S, 0)
        h = w * np.sum(s * t)
        T = min(1.0, (self.error / (E + TINY)) ** 4)
        penalty = model.metric_penalty / len(x)
        g = (e_cv**2 - E / W - 2 * np.sum(e * t * H + t**2 * Q)) / W
        square = (x - self.center) ** 2
        G = -w * self.root * square * g + w / W * 4 * penalty * self.root**3
        if model.meta_rate is not None:
            curvature = 2 * (e**2 * h / w - e_cv**2 / W) + E / W**2
            curvature = (curvature + 4 * np.sum(e * t * (1 / W + h / w) * H)) / W
            G2 = w / W * 12 * penalty * self.root**2
            G2 = G2 + w * (self.root**2 * square**2 - square) * g
            G2 = G2 + w**2 * self.root**2 * square**2 * curvature
            step = np.clip(model.meta_rate * T * G * self.trace, -0.1, 0.1)
            self.log_rate = np.clip(self.log_rate - step, -10, 10)
            self.rate = np.exp(self.log_rate)
            kept = np.maximum(0, 1 - self.rate * T * G2)
            self.trace = self.trace * kept - self.rate * T * G
        change = self.rate * T * G
        wild = change > 0.1 * np.abs(self.root).max()
        self.rate = np.where(wild, self.rate / 2, self.rate)
        self.root = np.where(wild, self.root, self.root - change)
        lam = self.forget
        H = lam * self.H + w * s * e_cv * T / (1 - h)
        Q = lam * self.Q + w**2 * s**2 * e_cv**2 * T / (1 - h)
        self.H, self.Q = np.where(ready, H, self.H), np.where(ready, Q, self.Q)

    def add_direction(self, model):
        R, d = self.u.shape
        if len(self.u) == d:
            return
        mse = self.E / self.W + TINY
        better = mse[-1] < model.add_threshold * mse[-2]
        settled = self.n[-1] * (1 - self.forget[-1]) > 0.5
        if not (better and settled and self.n[-1] > 0.99 * self.n[0]):
            return
        unit = np.eye(R + 1, d)[R:]
        self.u, self.p = np.r_[self.u, unit], np.r_[self.p, unit]
        self.q, self.P = np.r_[self.q, 0 * unit], np.r_[self.P, 0 * unit]
        for name in "beta", "B", "E", "H", "Q", "n":
            setattr(self, name, np.r_[getattr(self, name), 0.0])
        self.W, self.S = np.r_[self.W, TINY], np.r_[self.S, TINY]
        self.forget = np.r_[self.forget, model.forgetting[0]]


class Oracle:
    """One output's fields."""

    def __init__(
        self,
        init_metric=25.0,
        init_rate=50.0,
        meta_rate=250.0,
        generate_below=0.1,
        prune_above=1.0,
        add_threshold=0.5,
        metric_penalty=1e-6,
        forgetting=(0.999, 0.99999, 0.9999),
    ):
        self.init_metric, self.init_rate = init_metric, init_rate
        self.meta_rate, self.metric_penalty = meta_rate, metric_penalty
        self.generate_below, self.prune_above = generate_below, prune_above
        self.add_threshold, self.forgetting = add_threshold, forgetting
        self.fields, self.pruned, self.inherited = [], 0, 0

    def predict(self, X):
        return np.array([self.predict_one(x) for x in X])

    def predict_one(self, x):
        total = weight = 0.0
        for field in self.fields:
            w = field.activation(x)
            if w > NEAR and field.trusted:
                total, weight = total + w * field.predict(x), weight + w
        return total / weight if weight else 0.0

    def learn(self, X, y):
        for x, value in zip(X, y, strict=True):
            self.learn_one(x, value)
        return self

    def learn_one(self, x, y):
        active = np.array([field.activation(x) for field in self.fields])
        for field, w in zip(self.fields, active, strict=True):
            if w > NEAR:
                field.update(self, x, y, w)
        order = np.argsort(-active, kind="stable")
        largest = active[order[0]] if len(order) else 0.0
        if largest <= self.generate_below:
            like = None
            if largest > 0.1 * self.generate_below and self.fields[order[0]].trusted:
                like = self.fields[order[0]]
                self.inherited += len(like.beta) > 2
            self.fields.append(Field(self, x, y, like))
        elif len(order) > 1 and active[order[1]] > self.prune_above:
            metrics = [np.sum(self.fields[i].root ** 2) for i in order[:2]]
            drop = order[0] if metrics[0] > metrics[1] else order[1]
            self.fields[drop] = self.fields[-1]
            self.fields.pop()
            self.pruned += 1
