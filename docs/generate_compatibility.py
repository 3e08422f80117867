"""Trains, tests and reloads every model of RecBole's on a small part of ml-100k, and writes docs/compatibility.md.

`make compatibility` does it with the installed libraries; results/compatibility has one file for each set of them.
"""

import argparse
import json
import logging
import math
import multiprocessing
import os
import re
import sys
import tempfile
import traceback
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import recbole
import torch
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.quick_start import load_data_and_model
from recbole.utils import get_model, get_trainer, init_seed

import recbole_adaptau
from recbole_adaptau.errors import AdapTauError
from recbole_adaptau.patches.models import recbole_model_names

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "results" / "compatibility", Path(__file__).with_name("compatibility.md")
LIBRARIES = ("torch", "numpy", "pandas", "scipy", "scikit-learn")
USERS, SECONDS = 60, 600
KINDS = {
    "general_recommender": "General",
    "sequential_recommender": "Sequential",
    "context_aware_recommender": "Context-aware",
    "knowledge_aware_recommender": "Knowledge",
}
INTER = ["user_id", "item_id", "rating", "timestamp"]
USER, ITEM = ["user_id", "age", "gender", "occupation"], ["item_id", "release_year", "class"]
SETTINGS: dict[str, dict[str, Any]] = {
    "general_recommender": {"load_col": {"inter": INTER}},
    "sequential_recommender": {"load_col": {"inter": INTER, "user": USER, "item": ITEM}, "MAX_ITEM_LIST_LENGTH": 10},
    "context_aware_recommender": {"load_col": {"inter": INTER, "user": USER, "item": ITEM}, "threshold": {"rating": 4}},
    "knowledge_aware_recommender": {},
}
WITHOUT_NEGATIVES = {"train_neg_sample_args": None}
VECTORS = {
    "load_col": {
        "inter": INTER,
        "kg": ["head_id", "relation_id", "tail_id"],
        "link": ["item_id", "entity_id"],
        "ent": ["ent_id", "ent_emb"],
        "rel": ["rel_id", "rel_emb"],
    },
    "additional_feat_suffix": ["ent", "rel"],
    "eval_args": {"split": {"LS": "valid_and_test"}, "order": "TO", "mode": "full"},
    "preload_weight": {"ent_id": "ent_emb", "rel_id": "rel_emb"},
    "alias_of_entity_id": ["ent_id"],
    "alias_of_relation_id": ["rel_id"],
    "kg_embedding_size": 8,
    "embedding_size": 8,  # GRU4RecKG's must be as long as the vectors
}
# What a model asks for besides, or trains before.
SPECIAL: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("CDAE", "MultiDAE", "MultiVAE", "MacridVAE", "RecVAE", "ENMF"), WITHOUT_NEGATIVES),
    **dict.fromkeys(("DiffRec", "LDiffRec"), WITHOUT_NEGATIVES),
    "RaCT": {**WITHOUT_NEGATIVES, "pretrain_epochs": 1, "save_step": 1},
    "ConvNCF": {"embedding_size": 64},  # its layers of convolution fit no other
    "NCL": {"warm_up_step": 0, "num_clusters": 10},
    "KTUP": {"train_rec_step": 1, "train_kg_step": 1},
    "GRU4RecKG": VECTORS,
    "KSR": VECTORS,
    "S3Rec": {"pretrain_epochs": 1, "save_step": 1},
    "MCCLK": {"k": 3},
}


def write_sample(folder: Path) -> None:
    """Interactions, features and knowledge of some users of ml-100k, and vectors of every entity and relation."""
    source, target = Path(recbole.__file__).parent / "dataset_example" / "ml-100k", folder / "sample"
    target.mkdir(parents=True)
    tables = {path.suffix[1:]: pd.read_csv(path, sep="\t", dtype=str) for path in source.glob("ml-100k.*")}
    inter = tables["inter"]
    inter = inter[inter["user_id:token"].astype(int) <= USERS]
    inter = inter[inter.groupby("item_id:token")["user_id:token"].transform("size") >= 5]
    items = set(inter["item_id:token"])
    link = tables["link"][tables["link"]["item_id:token"].isin(items)]
    known = set(link["entity_id:token"])
    kg = tables["kg"][tables["kg"]["head_id:token"].isin(known) | tables["kg"]["tail_id:token"].isin(known)].iloc[::4]
    rng = np.random.default_rng(0)
    for name, rows in (("ent", {*kg["head_id:token"], *kg["tail_id:token"]}), ("rel", set(kg["relation_id:token"]))):
        vectors = [" ".join(f"{value:.4f}" for value in rng.normal(size=8)) for _ in rows]
        tables[name] = pd.DataFrame({f"{name}_id:token": sorted(rows), f"{name}_emb:float_seq": vectors})
    for suffix, table in {**tables, "inter": inter, "link": link, "kg": kg}.items():
        table.to_csv(target / f"sample.{suffix}", sep="\t", index=False)


def stages(name: str, kind: str) -> list[dict[str, Any]]:
    """The settings of a model's trainings, one after the other; {saved} is the file of the one before."""
    base = {**SETTINGS[kind], **SPECIAL.get(name, {})}
    if name == "RaCT":
        return [
            {**base, "train_stage": "actor_pretrain"},
            {**base, "train_stage": "critic_pretrain", "pre_model_path": "{saved}"},
            {**base, "train_stage": "finetune", "pre_model_path": "{saved}"},
        ]
    if name == "S3Rec":
        return [
            {**base, "train_stage": "pretrain"},
            {**base, "train_stage": "finetune", "pre_model_path": "{saved}"},
        ]
    if name == "KD_DAGFM":
        return [base, {**base, "phase": "distillation", "warm_up": "{saved}"}]
    return [base]


def try_model(name: str, kind: str, data_path: str, answer: Any) -> None:
    """In a process of its own: what works, and the first test metric."""
    told: dict[str, Any] = {"trains": False, "tests": False, "reloads": False}
    sys.argv = ["compatibility"]
    try:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            _try_model(name, kind, data_path, told)
    except AdapTauError as error:
        told["error"] = str(error)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        told["error"] = f"{type(error).__name__}: {error} ({Path(last.filename).name}, line {last.lineno})"
    answer.send(told)


def _try_model(name: str, kind: str, data_path: str, told: dict[str, Any]) -> None:
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    common = {
        "data_path": data_path,
        "epochs": 1,
        "embedding_size": 16,
        "train_batch_size": 512,
        "show_progress": False,
    }
    saved = ""
    for stage in stages(name, kind):
        settings = {**common, **stage}
        settings.update({key: value.format(saved=saved) for key, value in stage.items() if value == "{saved}"})
        negatives = {} if kind != "sequential_recommender" else _negatives(name)
        config = Config(name, "sample", config_dict={**negatives, **settings})
        init_seed(config["seed"], config["reproducibility"])
        train, valid, test = data_preparation(config, create_dataset(config))
        init_seed(config["seed"], config["reproducibility"])
        model = get_model(name)(config, train._dataset).to(config["device"])
        trainer = get_trainer(config["MODEL_TYPE"], name)(config, model)
        trainer.fit(train, valid, saved=True, show_progress=False)
        saved = str(trainer.saved_model_file)
    told["trains"] = True
    init_seed(config["seed"], config["reproducibility"])
    result = dict(trainer.evaluate(test, load_best_model=True))
    told["tests"] = all(math.isfinite(value) for value in result.values())
    metric = next((key for key in result if key.startswith("ndcg")), next(iter(result)))
    told["metric"], told["value"] = metric, float(result[metric])
    config, model, *_, test = load_data_and_model(saved)
    init_seed(config["seed"], config["reproducibility"])
    again = get_trainer(config["MODEL_TYPE"], name)(config, model).evaluate(test, load_best_model=False)
    told["reloads"] = all(abs(again[key] - value) <= 1e-3 for key, value in result.items())


def _negatives(name: str) -> dict[str, Any]:
    """RecBole refuses sampled negatives where the loss is a softmax over all items."""
    model = get_model(name)
    text = (Path(recbole.__file__).parent / "properties" / "model" / f"{name}.yaml").read_text(encoding="utf-8")
    return WITHOUT_NEGATIVES if not hasattr(model, "input_type") and re.search(r"^loss_type: '?CE", text, re.M) else {}


def in_process(name: str, kind: str, data_path: str) -> dict[str, Any]:
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=try_model, args=(name, kind, data_path, there))
    process.start()
    there.close()
    told: dict[str, Any] = {"trains": False, "tests": False, "reloads": False}
    if not here.poll(SECONDS):
        told["error"] = f"not done after {SECONDS} seconds"
        process.kill()
    else:
        try:
            told = here.recv()
        except EOFError:
            told["error"] = "the process ended by itself"
    process.join()
    return told


def models(only: list[str]) -> list[tuple[str, str]]:
    folder = Path(recbole.__file__).parent / "model"
    named = {name.lower(): name for name in recbole_model_names()}
    found = [(named[path.stem], kind) for kind in KINDS for path in (folder / kind).glob("*.py") if path.stem in named]
    return sorted((pair for pair in found if not only or pair[0] in only), key=lambda pair: pair[0].lower())


def measure(only: list[str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        write_sample(Path(folder))
        found = {}
        for name, kind in models(only):
            found[name] = {"kind": kind, **in_process(name, kind, folder)}
            print(name, found[name], flush=True)
    about = {"python": ".".join(map(str, sys.version_info[:3])), "recbole_adaptau": recbole_adaptau.__version__}
    return {"versions": {**about, **{name: version(name).partition("+")[0] for name in LIBRARIES}}, "models": found}


def cell(told: dict[str, Any] | None) -> str:
    if told is None:
        return "–"
    if told["reloads"]:
        return f"{told['value']:.4f}"
    return "no" if not told["trains"] else "trains" if not told["tests"] else f"{told['value']:.4f}, does not reload"


def page() -> str:
    """The whole of docs/compatibility.md, from the files of results/compatibility."""
    stacks = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json"))]
    works = [sum(told["reloads"] for told in stack["models"].values()) for stack in stacks]
    heads = [", ".join(f"{name} {number}" for name, number in stack["versions"].items()) for stack in stacks]
    lines = [
        "# RecBole's models on today's libraries",
        "",
        f"Written by `make compatibility`. Each model of RecBole {recbole.__version__} was trained for one epoch on",
        f"the first {USERS} users of ml-100k with `recbole_adaptau` imported, tested, and loaded again from its",
        "checkpoint. A cell has NDCG@10 on test (AUC for models that predict clicks), which must be the same after",
        "loading. The figures show that a model runs, not how good it is.",
        "",
        *(f"- **{place}**: {head}: {done} of {len(stack['models'])} models." for place, head, done, stack in
          zip("ABCDEF", heads, works, stacks, strict=False)),
        "",
    ]  # fmt: skip
    for kind, title in KINDS.items():
        names = sorted({name for stack in stacks for name, told in stack["models"].items() if told["kind"] == kind})
        lines += [f"## {title}", "", "| model | " + " | ".join("ABCDEF"[: len(stacks)]) + " | why not |"]
        lines += ["|---" * (len(stacks) + 2) + "|"]
        for name in names:
            tolds = [stack["models"].get(name) for stack in stacks]
            why = next((told["error"] for told in tolds if told and "error" in told), "")
            for sign in "|[]":  # which mean something in a table or to a link
                why = why.replace(sign, f"\\{sign}")
            lines.append(f"| {name} | {' | '.join(map(cell, tolds))} | {' '.join(why.split())[:200]} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", default="newest", help="of the file in results/compatibility")
    parser.add_argument("--model", nargs="*", default=[], help="only these, and nothing is written")
    parser.add_argument("--page", action="store_true", help="write the page from the files that are there")
    given = parser.parse_args()
    if not given.page:
        measured = measure(given.model)
        if given.model:
            sys.exit()
        RESULTS.mkdir(parents=True, exist_ok=True)
        (RESULTS / f"{given.name}.json").write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
