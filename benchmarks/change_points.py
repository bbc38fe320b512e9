"""Changes of regime and contacts, told from what a Gaussian process did not expect."""

from __future__ import annotations

import copy
from collections import Counter
from itertools import product
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.reproduction import Reproduction, mean_std
from benchmarks.robot_streams import RegimeStream, change_points, drifting_arm
from tiercel.stream import (
    ChangeDetector,
    SparseSpectrumGP,
    ThresholdDetector,
    prequential,
)

Row = dict[str, Any]
Setting = tuple[float, float, int, float]  # a, b, M, h

INSTANCES, DRAWS, FREQUENCIES, VALIDATION, SOON = 20, 5, 50, 2_000, 20
REGIMES = {  # the share of the samples and the number of episodes in print
    "q0, base": (71.40, 32),
    "q1, shifted": (9.08, 11),
    "q2, widened": (7.30, 8),
    "q3, turned": (12.22, 12),
}
PRINTED: Setting = (0.0, 0.5, 20, 5.0)
SHIFTS = ((0.0, 0.5), (0.0, 1.0), (0.25, 0.5), (0.25, 1.0), (0.5, 1.0))
WINDOWS, THRESHOLDS = (10, 20, 50, 100), (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
GRID: tuple[Setting, ...] = tuple(
    (a, b, M, h) for (a, b), M, h in product(SHIFTS, WINDOWS, THRESHOLDS)
)
ONE_BY_ONE: tuple[Setting, ...] = tuple((0.0, 0.0, 1, h) for h in THRESHOLDS)

REST = f"% from sample {VALIDATION:,} on"
FALSE, DETECTED = "false alarms, %", "detected, %"
LATE = f"wrong within {SOON} samples of a switch, %"
ALARMS = (FALSE, DETECTED, LATE)


def detector(setting: Setting) -> Any:
    a, b, M, h = setting
    return ThresholdDetector(h) if a == b else ChangeDetector(a, b, M, h)


def alarms(
    base: SparseSpectrumGP, setting: Setting, X: np.ndarray, y: np.ndarray
) -> np.ndarray:
    """Tell which samples of a stream a copy of the model took for another regime.

    It learns the others, and so every setting leads to a model of its own.
    """
    report = prequential(
        copy.deepcopy(base), X, y, detector=detector(setting), baselines=False
    )
    assert report.gated is not None
    return report.gated


# --- change points -------------------------------------------------------------------


def figures(found: np.ndarray, regimes: np.ndarray) -> dict[str, float]:
    """Return the figures of one run in per cent; under a regime's name, its alarms."""
    wrong = found != (regimes > 0)
    shares = {
        "%": wrong,
        REST: wrong[VALIDATION:],
        FALSE: found[regimes == 0],
        DETECTED: found[regimes > 0],
        LATE: wrong & lately_switched(regimes),
    }
    shares |= {name: found[regimes == r] for r, name in enumerate(REGIMES)}
    return {name: 100 * float(share.mean()) for name, share in shares.items()}


def lately_switched(regimes: np.ndarray) -> np.ndarray:
    """Tell at which samples the regime has changed within the last few."""
    switches = np.flatnonzero(np.diff(regimes)) + 1
    now = np.arange(len(regimes))
    before = np.searchsorted(switches, now, side="right")
    return now - np.append(-SOON, switches)[before] < SOON


def averaged(runs: list[dict[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([run[name] for run in runs])) for name in runs[0]}


def row(what: str, runs: list[dict[str, float]], **more: Any) -> Row:
    spread = {n: mean_std(r[n] for r in runs) for n in ("%", REST, *ALARMS)}
    return {"what": what, **spread, **more}


def regimes() -> list[Row]:
    """The regimes of the drawn instances."""
    rows, drawn = [], [change_points(seed).regimes for seed in range(INSTANCES)]
    for number, (name, (share, episodes)) in enumerate(REGIMES.items()):
        inside = [found == number for found in drawn]
        starts = [part & np.diff(part, prepend=False) for part in inside]
        rows.append(
            {
                "what": f"samples of {name}",
                "%": mean_std(100 * part.mean() for part in inside),
                "printed": f"{share:.2f}",
                "episodes": mean_std(start.sum() for start in starts),
                "episodes, printed": episodes,
            }
        )
    return rows


def detection() -> list[Row]:
    """Base or not: at the setting in print, and at those chosen on each instance."""
    instances = [change_points(seed) for seed in range(INSTANCES)]
    never = [figures(np.zeros(len(d.X), bool), d.regimes) for d in instances]
    at_print, between, ratio, single = [], [], [], []
    for data in instances:
        models = [trained(data, draw) for draw in range(DRAWS)]
        runs = [judged(model, PRINTED, data) for model in models]
        at_print.append(averaged(runs))
        between.append(mean_std(run["%"] for run in runs)[1])
        ratio.append(chosen(models[0], GRID, data))
        single.append(chosen(models[0], ONE_BY_ONE, data))
    return [
        row("errors, always base", never, printed="28.60"),
        row(
            "errors at (a, b, M, h) = (0, 0.5, 20, 5)",
            at_print,
            printed="14.05 ± 0.77",
            **{"std between draws": float(np.mean(between))},
        ),
        *[
            {
                "what": f"flagged there of {name}",
                "%": mean_std(r[name] for r in at_print),
            }
            for name in REGIMES
        ],
        row(
            "errors, setting chosen",
            [run for _, run in ratio],
            chosen=said([setting for setting, _ in ratio]),
        ),
        row(
            "errors, single samples, h chosen",
            [run for _, run in single],
            chosen=said([setting for setting, _ in single]),
        ),
    ]


def trained(data: RegimeStream, draw: int) -> SparseSpectrumGP:
    model = SparseSpectrumGP(FREQUENCIES, tuning="optimized", random_state=draw)
    return model.fit(data.X_head, data.y_head)


def judged(
    base: SparseSpectrumGP, setting: Setting, data: RegimeStream
) -> dict[str, float]:
    return figures(alarms(base, setting, data.X, data.y), data.regimes)


def chosen(
    base: SparseSpectrumGP, settings: tuple[Setting, ...], data: RegimeStream
) -> tuple[Setting, dict[str, float]]:
    """Return what errs least on the first samples, and its figures on all of them."""
    X, y, other = (part[:VALIDATION] for part in (data.X, data.y, data.regimes > 0))
    error = {s: np.mean(alarms(base, s, X, y) != other) for s in settings}
    best = min(settings, key=error.__getitem__)
    return best, judged(base, best, data)


def said(picks: list[Setting]) -> str:
    """Name the settings that were chosen most often."""
    often = Counter(picks).most_common(3)
    parts = [f"{n} × ({', '.join(f'{v:g}' for v in pick)})" for pick, n in often]
    others = len(picks) - sum(n for _, n in often)
    return ", ".join(parts + [f"{others} × others"] * (others > 0))


# --- contacts ------------------------------------------------------------------------

ARMS, ARM_SAMPLES, FREE, PUSHED, CYCLES = 5, 40_000, 1_750, 1_250, 2
CONFIGURATIONS: dict[str, Setting] = {
    "(a) (0, 4, 100, 100)": (0.0, 4.0, 100, 100.0),
    "(b) single samples, h = 5": (0.0, 0.0, 1, 5.0),
    "(c) (0.5, 8, 10, 20)": (0.5, 8.0, 10, 20.0),
}
CONTACTS = {  # the push in residual deviations, and the rates printed for (a), (b), (c)
    "no contact": (0.0, (89.56, 88.51, 99.02)),
    "20 g": (1.0, (4.27, 10.55, 1.28)),
    "50 g": (2.5, (72.40, 35.00, 1.05)),
    "100 g": (5.0, (88.68, 73.21, 49.25)),
    "200 g": (10.0, (98.46, 97.60, 95.55)),
    "300 g": (15.0, (98.49, 98.26, 97.62)),
}


def pushes(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return which contact there is at each sample, and its push on three torques.

    Contacts grow within a cycle, with free motion before each; each pushes with the
    same torques for as long as it lasts, in a direction of its own.
    """
    kinds, torques = [], []
    for _ in range(CYCLES):
        for kind, (size, _) in enumerate(CONTACTS.values()):
            if not size:
                continue
            direction = random.standard_normal(3)
            push = size * direction / np.linalg.norm(direction)
            kinds += [np.zeros(FREE, int), np.full(PUSHED, kind)]
            torques += [np.zeros((FREE, 3)), np.tile(push, (PUSHED, 1))]
    return np.concatenate(kinds), np.concatenate(torques)


def pushed_arm(seed: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return the contacts of one simulated arm, and what each configuration flags."""
    arm = drifting_arm(seed, ARM_SAMPLES, drift=0)
    scale = arm.y_head[:, 2:].std(0)
    base = SparseSpectrumGP(FREQUENCIES, random_state=seed)
    base.fit(arm.X_head, arm.y_head[:, 2:] / scale)
    kinds, torques = pushes(np.random.default_rng(seed))
    y = arm.y[: len(kinds), 2:] / scale + base.hyperparameters_.noise * torques
    X = arm.X[: len(kinds)]
    found = {
        name: alarms(base, setting, X, y) for name, setting in CONFIGURATIONS.items()
    }
    return kinds, found


def contacts() -> list[Row]:
    """How many samples of each kind are classified rightly."""
    runs = [pushed_arm(seed) for seed in range(ARMS)]
    rows = []
    for place, name in enumerate(CONFIGURATIONS):
        for kind, (contact, (size, printed)) in enumerate(CONTACTS.items()):
            right = [
                100 * np.mean(found[name][kinds == kind] == (kind > 0))
                for kinds, found in runs
            ]
            rows.append(
                {
                    "what": f"{name}: {contact}",
                    "push": size,
                    "%": mean_std(right),
                    "printed": f"{printed[place]:.2f}",
                }
            )
    return rows


PARTS = {
    "regimes": regimes,
    "change points": detection,
    "contacts, simulated": contacts,
}


def measure(part: str) -> list[Row]:
    with threadpool_limits(1):
        return PARTS[part]()


BENCHMARK = Reproduction(
    title="Change points and contacts",
    sentence=(
        "A process with 50 frequencies predicts each sample; a likelihood ratio over "
        "the last M residuals says whether the regime is still the one it knows, and "
        "only then does it learn. *Change points* (Gijsberts 2011, section 6.2, Table "
        f"6.1): {INSTANCES} drawn streams of 5,000 samples after 1,000 of the base "
        "regime, non-fixed frequencies; ± is between streams, at the printed setting "
        f"each the mean of {DRAWS} draws of frequencies (in print: 25 draws on one "
        "stream, whose trajectory and automaton are not given). Settings are chosen "
        f"from the printed grid by the first {VALIDATION:,} samples of each stream, "
        "for one draw. *Contacts* (Tables 6.2 and 6.3) are a simulation: "
        f"{ARMS} simulated arms in place of the iCub, 10,000 samples to learn from "
        "and 30,000 with pushes, fixed frequencies; in per cent classified rightly. A "
        "push is a constant shift of the three torques, given in deviations of the "
        "residuals: 1 for every 20 g, by which single samples tell 50 g as often as "
        "in print."
    ),
    cases=[{"part": name} for name in PARTS],
    measure=measure,
)
