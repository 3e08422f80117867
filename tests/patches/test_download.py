"""Datasets that are not there: fetched from a real server on this machine, or explained in one message."""

import io
import os
import socket
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torch
from recbole.config import Config
from recbole.data import create_dataset

from recbole_adaptau.data import provide
from recbole_adaptau.errors import DataError

ROWS = [f"u{row % 7}\ti{row}" for row in range(40)]
INTER = "\n".join(["user_id:token\titem_id:token", *ROWS]) + "\n"


def archive() -> bytes:
    """A zip as RecBole's server has them: the files bear the archive's name, not the dataset's."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("Tiny.inter", INTER)
    return content.getvalue()


class Server(BaseHTTPRequestHandler):
    """Serves the archive, or one of the ways in which that goes wrong."""

    def do_GET(self):
        content, name = archive(), self.path.strip("/").partition("/")[0]
        if name == "missing":
            return self.send_error(404)
        self.send_response(200)
        if name != "unsized":
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if name == "corrupt":
            content = content[:45] + bytes(byte ^ 0xFF for byte in content[45:75]) + content[75:]
        elif name == "page":
            content = b"<html>not a zip</html>".ljust(len(content))
        self.wfile.write(content[: len(content) // 2] if name == "truncated" else content)

    def log_message(self, *args):
        """Keep the test's output clean."""


@pytest.fixture
def url(monkeypatch):
    """Make RecBole believe that every dataset is on our server; returns a function that picks the fault."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def serve(kind: str, port: int = server.server_port) -> str:
        address = f"http://127.0.0.1:{port}/{kind}/Tiny.zip"
        monkeypatch.setattr(provide, "downloads", lambda: {"tiny": address})
        return address

    # A proxy from the environment would be asked for 127.0.0.1 as well.
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    yield serve
    server.shutdown()
    server.server_close()


def load(name="tiny", **given):
    settings = {"data_path": "data", "load_col": {"inter": ["user_id", "item_id"]}, "state": "ERROR"} | given
    return create_dataset(Config("BPR", name, config_dict=settings))


@pytest.mark.parametrize("kind", ["good", "unsized"])
def test_a_dataset_is_downloaded_by_a_single_process(url, kind):
    assert not torch.distributed.is_initialized()
    url(kind)
    dataset = load()
    assert (dataset.user_num, dataset.item_num, len(dataset)) == (8, 41, 40)
    assert os.listdir("data") == ["tiny"] and os.listdir("data/tiny") == ["tiny.inter"]
    Path("like_any_folder").mkdir()
    assert Path("data/tiny").stat().st_mode == Path("like_any_folder").stat().st_mode


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("missing", "HTTP Error 404"),
        ("truncated", r"the connection ended after \d+ of \d+ bytes"),
        ("corrupt", "failed: .+"),
        ("page", "File is not a zip file"),
    ],
)
def test_a_download_that_fails_is_explained_and_leaves_nothing(url, kind, reason):
    address = url(kind)
    with pytest.raises(DataError, match=reason) as caught:
        load()
    message = str(caught.value)
    assert str(Path("data/tiny").absolute()) in message and address in message
    assert "tiny.inter" in message and "recbole-adaptau data convert --source DIR --name tiny" in message
    assert "recbole-adaptau data import --source FILE --name tiny" in message
    assert "data_path" in message
    assert not Path("data").exists()
    url("good")
    assert len(load()) == 40


def test_other_datasets_stay_when_a_download_fails(url):
    Path("data/other").mkdir(parents=True)
    url("corrupt")
    with pytest.raises(DataError):
        load()
    assert os.listdir("data") == ["other"]


def test_nobody_listening_is_explained(url):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url("good", port)
    with pytest.raises(DataError, match="Connection refused"):
        load()
    assert not Path("data").exists()


def test_more_than_a_gigabyte_is_asked_about(url, monkeypatch):
    url("good")
    monkeypatch.setattr(provide, "_ASK_ABOVE", 10)
    monkeypatch.setattr("builtins.input", lambda prompt: "n")
    with pytest.raises(DataError, match="nobody agreed"):
        load()
    monkeypatch.setattr("builtins.input", lambda prompt: "y")
    assert len(load()) == 40


def test_an_unknown_name_is_explained_with_the_nearest():
    Path("data/gowalla-lightgcn").mkdir(parents=True)
    with pytest.raises(DataError, match="RecBole knows no download of that name") as caught:
        load("gowala-lightgcn")
    message = str(caught.value)
    assert "Did you mean 'gowalla-lightgcn'?" in message
    assert str(Path("data/gowala-lightgcn").absolute()) in message
    assert os.listdir("data") == ["gowalla-lightgcn"]


def test_a_folder_without_the_file_lists_what_it_holds():
    Path("data/tiny").mkdir(parents=True)
    Path("data/tiny/tiny.csv").touch()
    with pytest.raises(DataError, match=r"needs tiny\.inter in .*data/tiny, which holds tiny\.csv\.") as caught:
        load()
    assert "These are LightGCN's files" not in str(caught.value)


def test_lightgcns_files_are_recognised():
    Path("data/tiny").mkdir(parents=True)
    for name in ("train.txt", "test.txt"):
        Path("data/tiny", name).touch()
    with pytest.raises(DataError) as caught:
        load()
    folder = Path("data/tiny").absolute()
    first, _, rest = str(caught.value).partition("To provide it")
    assert f"recbole-adaptau data convert --source {folder} --name tiny" in first
    assert "put tiny.inter" in rest


def test_a_missing_part_is_named():
    Path("data/tiny").mkdir(parents=True)
    for part in ("train", "test"):
        Path(f"data/tiny/tiny.{part}.inter").write_text(INTER)
    with pytest.raises(DataError, match=r"needs tiny\.valid\.inter in .*benchmark_filename is \['train', 'valid'"):
        load(benchmark_filename=["train", "valid", "test"])


def test_the_barrier_is_kept_where_processes_wait(url, monkeypatch):
    calls = []
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 0)
    monkeypatch.setattr(torch.distributed, "barrier", lambda: calls.append("waited"))
    url("good")
    load()
    assert calls == ["waited"]
