"""The test hub, checked with the library whose interface it speaks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

from tests.hub_server import Account, Fault, Faults, HubServer, Kind, Repository

WEIGHTS = bytes(range(256)) * 5000

SCRIPT = """
import json, sys
from huggingface_hub import HfApi, get_hf_file_metadata, hf_hub_download, hf_hub_url, scan_cache_dir, snapshot_download
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError, RevisionNotFoundError, EntryNotFoundError

api = HfApi()
found = {}
found["search"] = [m.id for m in api.list_models(search="TINY", sort="likes", limit=3)]
found["pages"] = [m.id for m in api.list_models(filter="base_model:org/tiny")]
info = api.model_info("org/tiny", files_metadata=True)
found["files"] = {s.rfilename: [s.size, s.lfs.sha256 if s.lfs else s.blob_id] for s in info.siblings}
found["sha"] = info.sha
found["tree"] = {f.path: f.size for f in api.list_repo_tree("org/tiny")}
found["folder"] = snapshot_download("org/tiny")
found["older"] = open(hf_hub_download("org/tiny", "config.json", revision="v1")).read()
def name(call):
    try:
        call()
    except HfHubHTTPError as error:
        return type(error).__name__ + ":" + str(error.response.status_code)
found["absent"] = name(lambda: api.model_info("org/none"))
found["revision"] = name(lambda: hf_hub_download("org/tiny", "config.json", revision="v9"))
found["entry"] = name(lambda: hf_hub_download("org/tiny", "none.json"))
for token in (False, "hf_plain", "hf_narrow", "hf_stale", "hf_accepted"):
    url = hf_hub_url("org/gated", "model.safetensors")
    found[str(token)] = name(lambda: get_hf_file_metadata(url, token=token))
found["who"] = api.whoami("hf_accepted")["name"]
found["cache"] = {r.repo_id: r.size_on_disk for r in scan_cache_dir().repos}
print(json.dumps(found))
"""


def test_the_real_client_is_served(tmp_path: Path) -> None:
    tiny = Repository(
        "org/tiny", {"config.json": b'{"v": 1}', "model.safetensors": WEIGHTS}, likes=5, tags=("tiny",)
    )
    tiny.refs["v1"] = tiny.head
    tiny.commit({"config.json": b'{"v": 2}', "model.safetensors": WEIGHTS, "sub/notes.txt": b"x"})
    others = [Repository(f"org/tiny-{i}", {"a": b"1"}, base_models=("org/tiny",), likes=i) for i in range(3)]
    gated = Repository("org/gated", {"model.safetensors": WEIGHTS}, gated=True)
    accounts = {
        "hf_plain": Account("ann"),
        "hf_accepted": Account("bob", accepted=frozenset({"org/gated"})),
        "hf_narrow": Account("cid", accepted=frozenset({"org/gated"}), gated_right=False),
    }
    with HubServer([tiny, *others, gated], accounts) as hub:
        environment = dict(os.environ, HF_ENDPOINT=hub.endpoint, HF_HOME=str(tmp_path), HF_HUB_OFFLINE="0")
        environment |= {"HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_UPDATE_CHECK": "1"}
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(SCRIPT)],
            capture_output=True,
            text=True,
            env=environment,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["search"] == ["org/tiny", "org/tiny-2", "org/tiny-1"]
    assert sorted(found["pages"]) == ["org/tiny-0", "org/tiny-1", "org/tiny-2"]
    files = tiny.commits[tiny.head]
    assert found["files"] == {path: [file.size, file.etag] for path, file in files.items()}
    assert found["sha"] == tiny.head
    assert found["tree"]["model.safetensors"] == len(WEIGHTS)
    assert Path(found["folder"], "model.safetensors").read_bytes() == WEIGHTS
    assert Path(found["folder"], "sub/notes.txt").read_bytes() == b"x"
    assert found["older"] == '{"v": 1}'
    assert found["absent"] == "RepositoryNotFoundError:401"
    assert found["revision"] == "RevisionNotFoundError:404"
    assert found["entry"] == "RemoteEntryNotFoundError:404"
    assert found["False"] == "GatedRepoError:401"
    assert found["hf_plain"] == "GatedRepoError:403"
    assert found["hf_accepted"] is None
    assert found["hf_narrow"] == "HfHubHTTPError:403"
    assert found["hf_stale"] == "HfHubHTTPError:401"
    assert found["who"] == "bob"
    assert found["cache"]["org/tiny"] >= len(WEIGHTS)
    # The real client keeps its token from the host that large files are redirected to; so do the logs say.
    assert any(each.path == "model.safetensors" for each in hub.log)
    assert not any(each.authorised for each in hub.log if each.path == "model.safetensors")


def fetch(url: str, headers: dict[str, str] | None = None) -> tuple[int, bytes, dict[str, str]]:
    import requests

    answer = requests.get(url, headers=headers or {}, timeout=5)
    return answer.status_code, answer.content, dict(answer.headers)


def test_ranges_and_faults() -> None:
    import pytest
    import requests

    faults = Faults(
        {
            "model.safetensors": [
                Fault(Kind.STATUS, status=429, seconds=2),
                Fault(Kind.CUT, after=100),
                Fault(Kind.LONG),
                Fault(Kind.SHORT, after=10),
                Fault(Kind.WRONG_BYTES, after=7),
                Fault(Kind.NEW_ETAG),
                Fault(Kind.NO_RANGE),
                Fault(Kind.OTHER_RANGE),
                Fault(Kind.DROP),
                Fault(Kind.REDIRECT),
            ]
        }
    )
    repository = Repository("org/tiny", {"model.safetensors": WEIGHTS})
    with HubServer([repository], faults=faults) as hub:
        url = f"{hub.endpoint}/org/tiny/resolve/main/model.safetensors"
        part = {"Range": "bytes=1000-1999"}
        status, _, headers = fetch(url, part)
        assert (status, headers["Retry-After"]) == (429, "2")
        with pytest.raises(requests.RequestException):
            fetch(url, part)
        with pytest.raises(requests.RequestException):
            fetch(url, part)
        assert len(fetch(url, part)[1]) < 1000
        wrong = fetch(url, part)[1]
        assert [i for i in range(1000) if wrong[i] != WEIGHTS[1000 + i]] == [7]
        assert set(fetch(url, part)[2]["ETag"].strip('"')) == {"0"}
        assert fetch(url, part)[0] == 200
        assert fetch(url, part)[2]["Content-Range"].startswith("bytes 1001-")
        with pytest.raises(requests.RequestException):
            fetch(url, part)
        assert fetch(url, part)[1] == WEIGHTS[1000:2000]
        status, body, headers = fetch(url, part)
        assert (status, body) == (206, WEIGHTS[1000:2000])
        assert headers["Content-Range"] == f"bytes 1000-1999/{len(WEIGHTS)}"
    assert len(faults.given) == 10
