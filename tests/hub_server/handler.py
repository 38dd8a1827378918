"""The test hub's answers to requests: the interface, and content that may go wrong."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import parse_qs, quote, unquote, urlsplit

from tests.hub_server.faults import Fault, Kind
from tests.hub_server.repository import Account, HubFile, Repository
from tests.hub_server.server import Served

if TYPE_CHECKING:
    from tests.hub_server.server import HubServer

_BLOCK = 1 << 18
_REVISION = r"(?P<revision>refs%2F[^/]+%2F[^/]+|refs/[^/]+/[^/]+|[^/]+)"
_REPOSITORY = r"(?P<repo>[\w.-]+/[\w.-]+)"
_RESOLVE = re.compile(rf"/{_REPOSITORY}/resolve/{_REVISION}/(?P<path>.+)")
_MODEL = re.compile(rf"/api/models/{_REPOSITORY}(?:/revision/{_REVISION})?")
_TREE = re.compile(rf"/api/models/{_REPOSITORY}/tree/{_REVISION}(?:/(?P<path>.*))?")
_REFS = re.compile(rf"/api/models/{_REPOSITORY}/refs")
_SORTS = {"downloads": "downloads", "likes": "likes", "lastModified": "last_modified"}


class _Content(BaseHTTPRequestHandler):
    """Sends files, or parts of them, as well or as badly as the faults say."""

    hub: ClassVar[HubServer]
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    @property
    def authorised(self) -> bool:
        return "Authorization" in self.headers

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        raise NotImplementedError

    def parse_request(self) -> bool:
        if self.hub.hold():  # on a connection that was kept open
            self.close_connection = True
            return False
        return super().parse_request()

    def answer(self, status: int, headers: dict[str, str], body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def content(self, file: HubFile, path: str, headers: dict[str, str], faulty: bool = True) -> None:
        start, end = 0, file.size
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if asked:
            start = int(asked[1])
            end = min(int(asked[2]) + 1, file.size) if asked[2] else file.size
        fault = self.hub.faults.next(path, end - start) if faulty and self.command == "GET" else None
        status = 206 if asked else 200
        if fault and fault.kind is Kind.STATUS:
            status = fault.status
        self.hub.record(Served(self.hub.now(), path, start, end, status, self.authorised, self.command))
        if asked and start >= file.size:
            self.answer(416, {"Content-Range": f"bytes */{file.size}"})
            return
        if fault and self._instead_of_content(fault, file):
            return
        if fault and fault.kind is Kind.NO_RANGE:
            start, end, status = 0, file.size, 200
        if fault and fault.kind is Kind.OTHER_RANGE and status == 206 and start + 1 < end:
            start += 1
        etag = "0" * len(file.etag) if fault and fault.kind is Kind.NEW_ETAG else file.etag
        told = end - start
        if fault and fault.kind is Kind.SHORT:
            end = start + max(0, told - 1 - fault.after % max(1, told))
            told = end - start
        if fault and fault.kind is Kind.LONG:
            told += 1000
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("ETag", f'"{etag}"')
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(told))
        if status == 206:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{file.size}")
        self.end_headers()
        if self.command != "HEAD":
            self._send(file, start, end, fault)
        if fault and fault.kind is Kind.LONG:
            self.close_connection = True

    def _instead_of_content(self, fault: Fault, file: HubFile) -> bool:
        """Answers that carry no content at all."""
        if fault.kind is Kind.STATUS:
            headers = {"Retry-After": f"{fault.seconds:g}"} if fault.seconds else {}
            self.answer(fault.status, headers, b"busy")
        elif fault.kind is Kind.DROP:
            self._hang_up()
        elif fault.kind is Kind.REDIRECT and file.lfs:
            # The other name of this machine: the target is another host, as with a mirror.
            port = urlsplit(self.hub.store).port
            target = (
                f"http://127.0.0.1:{port}/store/{file.sha256}?signature={self.hub.signature(file.sha256)}"
            )
            self.answer(302, {"Location": target})
        else:
            return False
        return True

    def _send(self, file: HubFile, start: int, end: int, fault: Fault | None) -> None:
        kind = fault.kind if fault else None
        stop = min(end, start + fault.after) if fault and kind in (Kind.CUT, Kind.STALL) else end
        if kind is None and isinstance(file.content, Path):
            self._send_file(file.content, start, end)
            return
        spoilt = start + fault.after % max(1, end - start) if fault and kind is Kind.WRONG_BYTES else -1
        block = 1 << 16 if kind is Kind.SLOW else _BLOCK
        for at in range(start, stop, block):
            data = bytearray(file.read(at, min(at + block, stop)))
            if at <= spoilt < at + len(data):
                data[spoilt - at] ^= 0x55
            if self.hub.hold():
                self._hang_up()
                return
            self.wfile.write(data)
            if fault and kind is Kind.SLOW:
                self.hub.pause(fault.seconds)
        if fault and kind is Kind.STALL:
            self.wfile.flush()
            self.hub.pause(fault.seconds)
        if kind in (Kind.CUT, Kind.STALL):
            self._hang_up()

    def _send_file(self, path: Path, start: int, end: int) -> None:
        self.wfile.flush()
        with path.open("rb") as source:
            self.connection.settimeout(None)
            at = start
            while at < end:
                at += os.sendfile(self.connection.fileno(), source.fileno(), at, end - at)

    def _hang_up(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


class StoreHandler(_Content):
    """Where large files lie. Whoever has a signed address may read; accounts are unknown here."""

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        digest = url.path.rpartition("/")[2]
        file = self.hub.by_digest(digest)
        if file is None or parse_qs(url.query).get("signature") != [self.hub.signature(digest)]:
            self.answer(403, {}, b"SignatureDoesNotMatch")
            return
        self.content(file, file.path, {})


class HubHandler(_Content):
    def do_GET(self) -> None:
        self.hub.requests.append((self.path, self.authorised))
        url = urlsplit(self.path)
        query = parse_qs(url.query)
        if (found := _RESOLVE.fullmatch(url.path)) is not None:
            self._resolve(found["repo"], unquote(found["revision"]), unquote(found["path"]))
        elif url.path == "/api/models":
            self._list(query)
        elif url.path == "/api/whoami-v2":
            self._who()
        elif (found := _TREE.fullmatch(url.path)) is not None:
            self._tree(found["repo"], unquote(found["revision"]), found["path"] or "")
        elif (found := _REFS.fullmatch(url.path)) is not None:
            self._refs(found["repo"])
        elif (found := _MODEL.fullmatch(url.path)) is not None:
            self._model(found["repo"], unquote(found["revision"] or "main"), query)
        else:
            self._refuse(404, "", "Not found")

    # ------------------------------------------------------------------ accounts

    def _account(self) -> Account | None:
        """Who asks. :raises PermissionError: the token belongs to nobody."""
        header = self.headers.get("Authorization", "")
        if not header:
            return None
        account = self.hub.accounts.get(header.removeprefix("Bearer "))
        if account is None:
            raise PermissionError
        return account

    def _refuse(self, status: int, code: str, message: str) -> None:
        headers = {"X-Error-Message": message, "Content-Type": "application/json"}
        if code:
            headers["X-Error-Code"] = code
        self.answer(status, headers, json.dumps({"error": message}).encode())

    def _repository(self, repo_id: str, content: bool = False) -> Repository | None:
        """The repository, or None after a refusal was sent. Content of a gated one takes more."""
        try:
            account = self._account()
        except PermissionError:
            self._refuse(401, "", "Invalid credentials in Authorization header")
            return None
        repository = self.hub.repositories.get(repo_id)
        if repository is None:
            if account is None:
                self._refuse(401, "RepoNotFound", "Invalid username or password.")
            else:
                self._refuse(404, "RepoNotFound", "Repository not found")
            return None
        if content and repository.gated:
            if account is None:
                words = f"Access to model {repo_id} is restricted. You must have access to it and be authenticated to access it. Please log in."
                self._refuse(401, "GatedRepo", words)
                return None
            if not account.gated_right:
                words = "Please enable access to public gated repositories in your fine-grained token settings to view this repository."
                self._refuse(403, "", words)
                return None
            if repo_id not in account.accepted:
                words = f"Access to model {repo_id} is restricted and you are not in the authorized list. Visit https://huggingface.co/{repo_id} to ask for access."
                self._refuse(403, "GatedRepo", words)
                return None
        return repository

    def _who(self) -> None:
        try:
            account = self._account()
        except PermissionError:
            account = None
        if account is None:
            self._refuse(401, "", "Invalid credentials in Authorization header")
        else:
            self._json({"type": "user", "name": account.name, "auth": {"type": "access_token"}})

    # ------------------------------------------------------------------ interface

    def _json(self, value: object, headers: dict[str, str] | None = None) -> None:
        self.answer(200, {"Content-Type": "application/json"} | (headers or {}), json.dumps(value).encode())

    def _list(self, query: dict[str, list[str]]) -> None:
        wanted = query.get("search", [""])[0].lower()
        author = query.get("author", [""])[0]
        filters = query.get("filter", [])
        found = [
            repository
            for repository in self.hub.repositories.values()
            if all(word in repository.repo_id.lower() for word in wanted.split())
            and (not author or repository.repo_id.startswith(f"{author}/"))
            and set(filters) <= {*repository.all_tags(), repository.licence}
        ]
        order = _SORTS.get(query.get("sort", ["downloads"])[0], "downloads")
        found.sort(key=lambda each: getattr(each, order), reverse=True)
        limit = int(query.get("limit", ["1000"])[0])
        begin = int(query.get("cursor", ["0"])[0])
        headers = {}
        if begin + limit < len(found):
            again = [(name, each) for name, values in query.items() if name != "cursor" for each in values]
            text = "&".join(f"{name}={quote(each)}" for name, each in again)
            address = f"{self.hub.endpoint}/api/models?{text}&cursor={begin + limit}"
            headers["Link"] = f'<{address}>; rel="next"'
        files = "full" in query or "siblings" in query.get("expand", [])
        page = [each.info(each.head, blobs=False, files=files) for each in found[begin : begin + limit]]
        self._json(page, headers)

    def _model(self, repo_id: str, revision: str, query: dict[str, list[str]]) -> None:
        if (repository := self._repository(repo_id)) is not None:
            if (sha := repository.resolve(revision)) is None:
                self._refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
            else:
                self._json(repository.info(sha, blobs="blobs" in query))

    def _tree(self, repo_id: str, revision: str, folder: str) -> None:
        if (repository := self._repository(repo_id)) is not None:
            if (sha := repository.resolve(revision)) is None:
                self._refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
            else:
                files = repository.commits[sha].values()
                self._json([file.tree_entry() for file in files if file.path.startswith(folder)])

    def _refs(self, repo_id: str) -> None:
        if (repository := self._repository(repo_id)) is not None:
            branches = [
                {"name": name, "ref": f"refs/heads/{name}", "targetCommit": sha}
                for name, sha in repository.refs.items()
            ]
            self._json({"branches": branches, "converts": [], "tags": []})

    def _resolve(self, repo_id: str, revision: str, path: str) -> None:
        repository = self._repository(repo_id, content=True)
        if repository is None:
            return
        sha = repository.resolve(revision)
        if sha is None:
            self._refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
            return
        file = repository.commits[sha].get(path)
        if file is None:
            self._refuse(404, "EntryNotFound", "Entry not found")
            return
        headers = {"X-Repo-Commit": sha}
        if not file.lfs:
            self.content(file, path, headers)
            return
        headers |= {
            "X-Linked-Etag": f'"{file.sha256}"',
            "X-Linked-Size": str(file.size),
            "ETag": f'"{file.oid}"',
            "Location": f"{self.hub.store}/store/{file.sha256}?signature={self.hub.signature(file.sha256)}",
        }
        self.answer(302, headers, b"Found. Redirecting")
