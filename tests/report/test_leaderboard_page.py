"""The leaderboard section: alone for packets, beside the rest for runs."""

from __future__ import annotations

import dataclasses
import json
import re

import numpy as np
import pytest

from wearjax import cli
from wearjax.benchmarks import result_files
from wearjax.benchmarks.openmhc import bootstrap_timing, packet
from wearjax.errors import ConfigError
from wearjax.report import leaderboard, page


@pytest.fixture(scope="module")
def table():
    return bootstrap_timing.random_table(n_participants=8, n_methods=3, seed=2)


def submitted(folder, table, method, name):
    about = packet.Submission(name=name, submitter="A & B", code_url="", category="<i>Neural</i>")
    rows = packet.imputation_rows(table, split="test", rename={method: packet.slug(name)})
    packet.write_submission(
        folder, rows, about, track="imputation", subtrack="single-day", fallback_rate=0.0123
    )
    return folder


def scored_run(folder, table, methods):
    folder.mkdir()  # without scores of its own, which would only cost figures
    (folder / "results.json").write_text(json.dumps({"n_days": 1, "fallback": dict.fromkeys(methods, 0.0)}))
    rows = packet.imputation_rows(table, split="test", rename={m: m for m in methods})
    result_files.write_table(folder / "per_user_errors.parquet", rows)
    return folder


def section(text: str) -> str:
    return re.search(r'<section id="leaderboard">.*?</section>', text, re.DOTALL)[0]


def test_packets_alone_make_a_page(table, tmp_path, capsys):
    best = submitted(tmp_path / "a", table, "method_1", "Best & first")
    base = submitted(tmp_path / "b", table, "locf", "locf")
    cli.main(["report", str(best), str(base), "--out", str(tmp_path / "board.html")])
    text = (tmp_path / "board.html").read_text()
    assert "Leaderboard: imputation" in text
    shown = section(text)
    assert "Best &amp; first" in shown
    assert "&lt;i&gt;Neural&lt;/i&gt; · A &amp; B · single-day" in shown
    assert "1.23%" in shown
    assert "mean of 1,000 bootstrap draws" in shown
    assert "data-sortable" in shown
    assert shown.count('<th scope="row"') == 2
    assert 'id="skill"' not in text
    assert "http:" not in text
    assert "https:" not in text
    assert "board.html" in capsys.readouterr().out


def test_a_finished_run_becomes_a_packet_of_its_learned_method(table, tmp_path, capsys):
    run = scored_run(tmp_path / "run", table, ["locf", "method_1"])
    about = ["--name", "Mine: v2", "--submitter", "us"]
    cli.main(["packet", str(run), "--out", str(tmp_path / "p"), *about])
    assert "mine_v2.submission.yaml" in capsys.readouterr().out
    cli.main(["packet", str(run), "--method", "locf", "--out", str(tmp_path / "p")])
    cli.main(["report", str(tmp_path / "p")])
    names = re.findall(
        r'<th scope="row" data-value="([^"]+)"', section((tmp_path / "p" / "report.html").read_text())
    )
    assert sorted(names) == ["Mine: v2", "locf"]
    for options, told in (
        (["--method", "nobody"], "'nobody' was not evaluated (locf, method_1)"),
        (["--method", "locf", "--subtrack", "static"], "subtrack 'static' of imputation"),
        (["--name", "mine (v2)"], "is the packet of another method, 'Mine: v2'; pass --force"),
    ):
        with pytest.raises(SystemExit):
            cli.main(["packet", str(run), "--out", str(tmp_path / "p"), *options])
        assert told in " ".join(capsys.readouterr().err.split())


def test_what_the_board_says_stands_on_the_terminal_too(table, tmp_path, capsys):
    run = scored_run(tmp_path / "run", table, ["locf", "method_1"])
    other = submitted(tmp_path / "p", table, "method_2", "other")
    cli.main(["report", str(run), str(other), "--out", str(tmp_path / "board.html")])
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("leaderboard, ")]
    (line,) = [line for line in told if "unknown" in line]
    assert "other: scored on unknown days, windows and masks" in line
    assert "leaderboard, imputation: only 8 participants were scored" in " ".join(told)
    assert "scored on unknown days, windows and masks" in section((tmp_path / "board.html").read_text())


def test_a_method_that_lacks_a_task_has_no_skill_rank_or_best_mark_there(table, tmp_path):
    run = scored_run(tmp_path / "run", table, ["locf", "method_1"])
    errors = table.errors.copy()
    errors[table.methods.index("method_2"), 0] = np.nan  # the others have random_noise ch_0
    other = submitted(tmp_path / "p", dataclasses.replace(table, errors=errors), "method_2", "other")
    (board,) = leaderboard.boards([run], [other], n_boot=10)
    rows = {row.name: dict(zip(board.headings, row.cells, strict=True)) for row in board.rows}
    for heading in ("Rank", "Overall", "Fair"):
        assert not rows["other"][heading].sort
        assert rows["method_1"][heading].sort
    assert rows["other"]["Semantic"].sort, "it lacks nothing there"
    (note,) = [note for note in board.notes if "no score" in note]
    assert note.startswith("other: no score, or one of fewer participants, in random_noise ch_0;")


def test_a_packet_stands_beside_a_run(table, tmp_path):
    run = scored_run(tmp_path / "run", table, ["locf", "method_1"])
    other = submitted(tmp_path / "p", table, "method_2", "other")
    text = page.write_report([run, other], tmp_path).read_text()
    shown = section(text)
    names = re.findall(r'<th scope="row" data-value="([^"]+)"', shown)
    assert sorted(names) == ["locf", "method_1", "other"]
    assert 'id="skill"' in text
    assert '<a href="#leaderboard">' in text
    overall = [
        float(v)
        for v in re.findall(r'</th>\n<td data-value="[^"]*".*?</td>\n<td data-value="([^"]*)"', shown)
    ]
    assert overall == sorted(overall, reverse=True)


def test_two_runs_are_scored_together_and_one_is_not(table, tmp_path):
    first = scored_run(tmp_path / "first", table, ["locf", "method_1"])
    second = scored_run(tmp_path / "second", table, ["locf", "method_2"])
    assert 'id="leaderboard"' not in page.write_report(first, tmp_path / "one.html").read_text()
    shown = section(page.write_report([first, second], tmp_path / "two.html").read_text())
    assert shown.count('<th scope="row"') == 3


def test_runs_that_do_not_compare_say_so_and_keep_their_page(table, tmp_path):
    first = scored_run(tmp_path / "first", table, ["locf", "method_1"])
    other = bootstrap_timing.random_table(n_participants=8, n_methods=3, seed=9)
    second = scored_run(tmp_path / "second", other, ["locf", "method_2"])
    said: list[str] = []
    text = page.write_report([first, second], tmp_path, say=said.append).read_text()
    assert "cannot stand in one table" in section(text)
    assert len(said) == 1
    assert re.match(r"leaderboard: none, .* hold different errors of the baseline 'locf'", said[0])
    assert 'id="skill"' in text
    with pytest.raises(ConfigError, match="different errors of the baseline"):
        page.write_report([first, submitted(tmp_path / "p", other, "locf", "locf")], tmp_path)


def test_an_invalid_packet_stops_the_page(table, tmp_path):
    folder = submitted(tmp_path / "p", table, "method_1", "mine")
    sidecar = folder / "imputation" / "mine.meta.json"
    sidecar.write_text(json.dumps({"display_name": "x"}))
    with pytest.raises(ConfigError, match="not a valid packet"):
        page.write_report(folder, tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_numbers_are_point_and_interval(table, tmp_path):
    base, mine = (submitted(tmp_path / m, table, m, m) for m in ("locf", "method_1"))
    (board,) = leaderboard.boards([], [base, mine], n_boot=30)
    assert board.headings == (
        "Rank", "Overall", "Semantic", "Activity", "Physiology", "Sleep", "Workouts", "Fair", "Substituted",
        "Participants",
    )  # fmt: skip
    rows = {row.name: row.cells for row in board.rows}
    assert [rows["locf"][i].value for i in (1, 7)] == ["0.0", "0.0"]
    assert [rows["locf"][i].interval for i in (1, 7)] == ["reference", "reference"]
    assert re.fullmatch(r"−?[\d.]+ \[−?[\d.]+, −?[\d.]+\]", rows["method_1"][1].interval)
    assert re.fullmatch(r"\[−?[\d.]+, −?[\d.]+\]", rows["method_1"][7].interval)
    assert rows["method_1"][0].interval.count(".") == 3
    ranks = [float(rows[m][0].sort) for m in rows]
    assert np.argmin(ranks) == [rows[m][0].best for m in rows].index(True)
    (still,) = leaderboard.boards([], [base, mine], n_boot=0)
    assert still.rows[0].cells[1].interval in ("", "reference")
