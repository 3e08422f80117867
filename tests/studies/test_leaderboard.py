"""The leaderboard's entries and rows from planted records; nothing here is trained."""

import csv
import io
from pathlib import Path

from recbole_adaptau.studies.leaderboard.entries import entries
from recbole_adaptau.studies.leaderboard.table import ACCURACY, BEYOND, as_csv, markdown, rows


def test_a_plus_behind_the_name_is_the_recipe():
    plain, plus, peer = entries(["AdapTauMF", "AdapTauMF+", "BPR"], "ml-100k")
    assert (plain.model, plain.recipe, plain.name) == ("AdapTauMF", "none", "AdapTauMF")
    assert (plus.model, plus.recipe, plus.name) == ("AdapTauMF", "plus", "AdapTauMF+")
    assert plus.trials == plain.trials and plus.source == plain.source
    given = {"recipe": ["popularity_prior"]}
    specs = [entry.spec(0, "ml-100k", 1, given, None) for entry in (plain, plus, peer)]
    assert [spec.name for spec in specs] == ["AdapTauMF-seed1", "AdapTauMF+-seed1", "BPR-try1-seed1"]
    asked = [spec.settings(Path("x")).get("recipe") for spec in specs]
    assert asked == [["popularity_prior"], "'plus'", None], "RecBole's own models have no recipe"


def group(model, method, ndcg):
    test = dict.fromkeys((*ACCURACY, *BEYOND), 0.5) | {"ndcg@20": ndcg}
    run = {"method": method, "seed": 1, "folder": f"runs/{method}", "test_result": test, "best_valid_score": 0.1}
    run |= {"epochs": 3, "train_seconds": 1.0, "best_epoch": 2, "seconds_to_best": 1.0, "seconds": 2.0}
    run |= {"peak_memory_mb": 9.0, "parameters": 7, "stopped_by": None, "environment": {}}
    about = {"source": "here", "settings": {}, "temperatures_tried": 0, "trials": 1, "lent": True, "errors": []}
    return {"model": model, **about, "runs": [run]}


def test_a_model_with_and_without_a_recipe_has_two_rows():
    groups = [group("AdapTauMF", "AdapTauMF", 0.2), group("AdapTauMF", "AdapTauMF+", 0.3)]
    made = rows(groups, Path("nowhere"))
    assert [row["method"] for row in made] == ["AdapTauMF+", "AdapTauMF"]
    assert made[0]["significance"] is None and "error" in made[1]["significance"]
    data = {"dataset": "d", "rows": made, "runs": [one for each in groups for one in each["runs"]], "command": "c"}
    data |= {"runs_asked": 2, "protocol": "paper", "valid_metric": "NDCG@20", "seeds": [1], "budget": None}
    text = markdown(data)
    assert "| 1 | AdapTauMF+ |" in text and "| 2 | AdapTauMF |" in text
    assert "**Paper protocol: epoch chosen on the test set**" in text
    lines = list(csv.DictReader(io.StringIO(as_csv(data))))
    assert [(line["method"], line["model"], line["protocol"]) for line in lines] == [
        ("AdapTauMF+", "AdapTauMF", "paper"),
        ("AdapTauMF", "AdapTauMF", "paper"),
    ]
