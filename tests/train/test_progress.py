from __future__ import annotations

import io

from rich.console import Console

from wearjax.train import progress

ROW = {
    "loss": 0.51234,
    "learning_rate": 1e-4,
    "grad_norm": 0.8,
    "days_per_second": 210.0,
    "data_wait_fraction": 0.031,
}


def shown(*, terminal):
    console = Console(file=io.StringIO(), force_terminal=terminal, width=120)
    with progress.Display(console, start=3, steps=10) as display:
        display.step(4, ROW)
        display.line(4, "train", ROW)
        display.line(4, "validation", {"loss": 0.6, "examples": 32})
        display.line(5, "train", {k: ROW[k] for k in ("loss", "learning_rate", "grad_norm")})
    return console.file.getvalue()


def test_plain_lines_without_a_terminal():
    text = shown(terminal=False)
    assert text.splitlines() == [
        "step 4/10  loss 0.5123  learning rate 1.00e-04  gradient 0.8  210.0 days/s  waiting for data 3 %",
        "step 4/10  validation loss 0.6000 (32 days)",
        "step 5/10  loss 0.5123  learning rate 1.00e-04  gradient 0.8",
    ]


def test_a_bar_on_a_terminal():
    text = shown(terminal=True)
    assert "step 4/10  loss 0.5123" in text
    assert "4/10" in text
    assert "\x1b[" in text
