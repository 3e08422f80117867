"""What the documentation tells people to type: run where that takes seconds, else parsed by its program."""

import importlib
import io
import re
import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

import pytest
from recbole.config import Config
from recbole.utils import get_model
from torch.distributed.run import get_args_parser as torchrun_parser

from recbole_adaptau.cli.arguments import parse_settings
from recbole_adaptau.cli.main import VERBS, main
from recbole_adaptau.cli.train import DATASET, MODEL
from recbole_adaptau.config.yaml_files import read_yaml
from tests.docs.commands import FILES, PROGRAMS, ROOT, Found, commands, python_blocks
from tests.e2e.test_guide import shop

COMMANDS = [command for path in FILES for command in commands(path)]
# These pages' blocks need what stands before them; tests/e2e/test_guide.py and test_serving_page.py run them in turn.
BLOCKS = [block for path in FILES for block in python_blocks(path) if path.name not in ("guide.md", "serving.md")]

# Run as they stand, but for one epoch and with little output.
RUN = (
    "python run_recbole_adaptau.py --model=AdapTauLightGCN --dataset=ml-100k",
    "python run_recbole_adaptau.py -m AdapTauMF -d ml-100k --tau_strategy=fixed --tau=0.2",
    "python docs/generate_configuration.py --check",
    "python examples/custom_backbone.py --epochs=2",
)
# Neither run nor parsed, and why.
EXCEPTIONS = {
    "pip freeze": "pip's own, changes nothing",
    "pip install": "installs; tests/e2e/test_wheel.py builds and installs the wheel",
    "uv pip": "uv's own",
    "source .venv/bin/activate": "the shell's own; the file comes with every virtual environment",
}
# The verbs that take configuration keys beside options of their own.
TAKES_KEYS = ("train", "experiment", "compare", "tune")
# What `python` runs, and the verb that it is.
SCRIPTS = {"run_recbole_adaptau.py": "train", "run_hyper.py": "tune"}


def parse_with(module: str, words: list[str]):
    """What the parser of a module makes of the words; None if it only helps."""
    found = importlib.import_module(module)
    try:
        return (getattr(found, "parser", None) or found._parser)().parse_known_args(words)
    except SystemExit as stop:
        assert stop.code == 0, f"the program refuses these words: {words}"
        return None


def parse(verb: str, words: list[str]) -> None:
    parsed = parse_with(f"recbole_adaptau.cli.{verb}", words)
    if parsed is None:
        return
    args, rest = parsed
    keys = parse_settings(rest) if verb in TAKES_KEYS else {}
    assert keys or not rest, f"the program does not know {rest}"
    model, dataset = getattr(args, "model", None), getattr(args, "dataset", None)
    if isinstance(model, str):
        get_model(model)
    if verb == "train" and not args.resume and "protocol" not in keys:
        model, dataset = model or MODEL, dataset or DATASET
        files = [str(ROOT / file) for file in args.config_files.split() if (ROOT / file).is_file()]
        name = dataset if re.fullmatch(r"[a-z0-9-]+", dataset) else "ml-100k"  # NAME and the like are the reader's
        Config(model, name, files, keys)


def check(found: Found) -> None:
    program, *words = found.words
    if program == "torchrun":
        started = torchrun_parser().parse_args(words)
        program, words = "python", ["-m"] * started.module + [started.training_script, *started.training_script_args]
    if words[:2] == ["-m", "recbole_adaptau"]:
        program, words = "recbole-adaptau", words[2:]
    if program == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M)
        assert [word for word in words if "=" not in word and word not in targets] == []
    elif program == "recbole-adaptau":
        assert words[0] in VERBS or words[0] in ("VERB", "--help", "--version"), f"there is no verb {words[0]}"
        if words[0] in VERBS and words[1:]:  # a verb alone is a name, not a command
            parse(words[0], words[1:])
    elif words[:2] == ["-m", "pytest"]:
        files = [word for word in words[2:] if not word.startswith("-") and not word.isdigit() and word != "not slow"]
        assert all((ROOT / word).exists() for word in files)
    elif words[0] == "-m":
        place = ROOT / words[1].replace(".", "/")
        assert words[1].startswith("tests.") and (place.is_dir() or place.with_suffix(".py").is_file())
        parsed = parse_with(f"{words[1]}.__main__" if place.is_dir() else words[1], words[2:])
        assert parsed is None or not parsed[1], f"the program does not know {parsed[1]}"
    else:
        assert (ROOT / words[0]).is_file(), f"there is no {words[0]}"
        if words[0] in SCRIPTS or words[0].startswith("examples/"):
            parse(SCRIPTS.get(words[0], "train"), words[1:])
        elif words[0].startswith("results/"):  # they take folders, named by what the page calls them
            assert not any(word.startswith("-") for word in words[1:])
        else:
            assert set(words[1:]) <= {"--check"}


def test_there_are_commands_to_check():
    """If the extraction broke, everything below would pass."""
    texts = [found.text for found in COMMANDS]
    assert (
        len(texts) > 25
        and "make help" in texts
        and {found.file for found in COMMANDS} >= {"README.md", "docs/extending.md"}
    )
    assert all(command in texts for command in RUN if "--check" not in command)
    assert all(any(text.startswith(command) for text in texts) for command in EXCEPTIONS)
    assert len(BLOCKS) >= 3


@pytest.mark.parametrize("found", COMMANDS, ids=str)
def test_every_command_is_one_its_program_takes(found):
    assert found.words[0] in PROGRAMS, f"{found}: not a command; give the block a language (```text)"
    if not found.text.startswith(tuple(EXCEPTIONS)):
        check(found)


@pytest.mark.parametrize(
    "wrong",
    [
        "make nothing",
        "python run_nothing.py",
        "python run_recbole_adaptau.py --model=AdapTauMFF",
        "python run_recbole_adaptau.py --dataset",
        "python run_recbole_adaptau.py --tau_strategy=warm",
        "recbole-adaptau experiment grid --model AdapTauMF",
        "recbole-adaptau bench speed --cores 3",
        "python -m recbole_adaptau.data convert --source x --name y",
        "python -m tests.nothing",
        "python -m tests.soak swims",
        "python -m tests.soak.fuzz --speed 3",
        "recbole-adaptau similar run --item 5 --of 3",
        "recbole-adaptau experiment tune --model=AdapTauMF --dataset=ml-100k",
        "python run_hyper.py --model=AdapTauMF --dataset=ml-100k --algo grid",
        "recbole-adaptau compare --seeds many",
        "recbole-adaptau report --open",
        "torchrun --standalone --nproc-per-node=2 -m recbole_adaptau train --modle=AdapTauMF",
    ],
)
def test_a_wrong_command_would_be_found(wrong, capsys):
    with pytest.raises((AssertionError, ValueError)):
        check(Found("README.md", 1, wrong))


@pytest.mark.e2e
@pytest.mark.parametrize("command", RUN)
def test_commands_that_take_seconds_run(command, monkeypatch, capsys):
    """In this process: starting Python and importing PyTorch takes longer than the rest."""
    program, *words = Found("", 0, command).words
    short = [] if words[0].startswith("docs/") else ["--show_progress=False", "--state=ERROR"]
    short += [] if words[0].startswith(("docs/", "examples/")) else ["--epochs=1"]
    monkeypatch.setattr(sys, "argv", [*words, *short])
    with pytest.raises(SystemExit) as stop:
        if program == "recbole-adaptau":
            sys.exit(main([*words, *short]))
        runpy.run_path(str(ROOT / words[0]), run_name="__main__")
    assert not stop.value.code, capsys.readouterr().err
    assert not short or "test: recall@10" in capsys.readouterr().out


@contextmanager
def package_as_before() -> Iterator[None]:
    """Undo what a block registers: entries of the package's module-level registries, and names set in its modules."""
    modules = [module for name, module in list(sys.modules.items()) if name.split(".")[0] == "recbole_adaptau"]
    names = [(module, {name: value for name, value in vars(module).items() if name[:2] != "__"}) for module in modules]
    held = [getattr(value, "_known", value) for _, own in names for value in own.values()]  # a Registry keeps its dict
    tables = {id(value): value for value in held if type(value) is dict}.values()
    entries = [(table, dict(table)) for table in tables]
    try:
        yield
    finally:
        for table, before in entries:
            if table != before:
                table.clear()
                table.update(before)
        for module, before in names:
            for name, value in before.items():
                if vars(module).get(name) is not value:
                    setattr(module, name, value)


def test_what_a_block_registers_is_undone():
    from recbole_adaptau.core.strategies import STRATEGIES
    from recbole_adaptau.model import registry

    models, before, strategies = registry.MODELS, dict(registry.MODELS), list(STRATEGIES)
    with pytest.raises(ZeroDivisionError), package_as_before():
        registry.MODELS["Mine"] = object
        STRATEGIES.register("mine")(type("Mine", (STRATEGIES["none"],), {}))
        registry.MODELS = {}
        raise ZeroDivisionError
    assert registry.MODELS is models and models == before and list(STRATEGIES) == strategies


@pytest.mark.e2e
@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_python_blocks_run(block):
    """As written, but for fewer epochs."""
    bought, _ = shop()
    Path("shop.csv").write_text("\n".join(["user,item", *map(",".join, bought)]) + "\n", encoding="utf-8")
    code = re.sub(r'"epochs": \d+', '"epochs": 1, "show_progress": False, "state": "ERROR"', block.text)
    code = re.sub(r"(Recommender\(.*)epochs=\d+", r'\1epochs=1, show_progress=False, state="ERROR"', code)
    assert '"epochs": 1' in code or "run_recbole_adaptau(" not in code
    with package_as_before(), redirect_stdout(io.StringIO()):
        exec(compile(code, str(block), "exec"), {"__name__": "documentation"})


def test_the_configuration_reference_is_what_the_properties_say():
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        reference = importlib.import_module("generate_configuration").reference()
    finally:
        sys.path.remove(str(ROOT / "docs"))
    assert (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8") == reference, "run: make docs"


@pytest.mark.parametrize("path", sorted((ROOT / "properties/model").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_key_of_the_properties_is_explained(path: Path):
    pattern = r"^(\w+):.*# \((?:str|int|float|bool|list|dict)(?: or \w+)?\) \w"
    assert re.findall(pattern, path.read_text(encoding="utf-8"), re.M) == list(read_yaml(path))
