"""A large table and a robot's stream, learned by Tiercel and by its peers."""

from __future__ import annotations

import json
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from demo import stream
from demo.table import CENTERS, CONTESTANTS, JOINTS, NOISE, ROWS, TEST_ROWS, measure

HERE = Path(__file__).parent


def draw(results: dict[str, dict[str, float]], path: Path) -> None:
    """Draw error against time, each mark as large as its memory."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for name, row in results.items():
        size = 250 * row["gigabytes"]
        axes.scatter(row["seconds"], row["error"], s=size, alpha=0.6)
        axes.annotate(
            f"{name}\n{row['gigabytes']:.1f} GB",
            (row["seconds"], row["error"]),
            textcoords="offset points",
            xytext=(0, 14 + size**0.5 / 2),
            ha="center",
            fontsize=9,
        )
    axes.axhline(NOISE, color="gray", linewidth=0.8, linestyle="--")
    axes.annotate("noise of one measurement", (0.02, NOISE), (4, 3),
                  xycoords=("axes fraction", "data"), textcoords="offset points",
                  fontsize=8, color="gray")  # fmt: skip
    axes.set(
        xscale="log", yscale="log", xlabel="seconds, fit and predict",
        ylabel="RMSE against the noiseless distance",
        title=f"{ROWS:,} rows, {JOINTS} joints",
    )  # fmt: skip
    axes.margins(x=0.35, y=0.45)
    figure.savefig(path, dpi=150)


def main() -> None:
    """Run everyone, print the tables, write ``demo/results.json`` and the figures."""
    print(
        f"Learning the reach of a {JOINTS}-joint arm from {ROWS:,} noisy rows "
        f"({CENTERS:,} centers; predicting {TEST_ROWS:,} rows) ..."
    )
    results = {}
    spawn = multiprocessing.get_context("spawn")
    for name in CONTESTANTS:
        with ProcessPoolExecutor(1, mp_context=spawn) as fresh:
            results[name] = fresh.submit(measure, name).result()
    print(f"\n{'':36}{'RMSE':>8}{'seconds':>10}{'peak GB':>10}")
    for name, row in results.items():
        print(
            f"{name:36}{row['error']:8.4f}{row['seconds']:10.1f}"
            f"{row['gigabytes']:10.2f}"
        )
    (HERE / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    draw(results, HERE / "error_time_memory.png")
    print(f"\nFigure: {HERE / 'error_time_memory.png'}")
    stream.main(HERE)


if __name__ == "__main__":
    main()
